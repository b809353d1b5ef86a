package hostdisk

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/util/subpath"
	"k8s.io/apimachinery/pkg/types"
)

// PodSubpaths are the subpath mounts of one volume of a pod.
type PodSubpaths struct {
	Pod    types.UID
	Of     func(outer string) bool // selects the volume
	Detach *subpath.DetachOptions  // detaches busy subpaths; nil: busy subpaths stay
}

// UnmountSubpaths unmounts the subpaths of a pod's volume.
func (d Disk) UnmountSubpaths(ctx context.Context, parts PodSubpaths) error {
	dir := filepath.Join(d.host.Root(), "pods", string(parts.Pod))
	names, err := poddirs.NamesIn(filepath.Join(dir, poddirs.Subpaths))
	for _, name := range names {
		if parts.Of(name) {
			err = errors.Join(err, d.unmountSubpathsOf(ctx, dir, name, parts.Detach))
		}
	}
	if err != nil {
		return fmt.Errorf("unmount subpaths of the volume: %w", err)
	}
	return nil
}

// unmountSubpathsOf unmounts the subpaths of the pod's volume with the name outer. If detach is
// not nil, it detaches busy ones.
func (d Disk) unmountSubpathsOf(ctx context.Context, podDir, outer string, detach *subpath.DetachOptions) error {
	unlock, err := d.subpaths.Lock(ctx, filepath.Join(podDir, outer))
	if err != nil {
		return err
	}
	defer unlock()
	if detach != nil {
		return subpath.Detach(ctx, d.mounter, podDir, outer, *detach)
	}
	return subpath.Cleanup(ctx, d.mounter, podDir, outer)
}
