package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/util/subpath"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A disk is what the manager itself reads and writes below the host's root. The
// simulation has another.
type disk interface {
	write(record) error
	remove(v1.UniqueVolumeName) error
	read() ([]record, map[string]brokenRecord)
	place() string            // where the records are
	volumes() (layout, error) // of pods
	// unmountSubpaths takes down those parts of the pod's volumes that containers have.
	unmountSubpaths(ctx context.Context, pod types.UID, of func(outer string) bool) error
	tidy(path string) error // removes the empty directories around one of a volume
	sweep()                 // removes all empty ones; nothing else is at work
}

type hostDisk struct {
	records
	host     volume.VolumeHost
	mounter  mount.Interface
	subpaths *keylock.Map // those of one volume are worked on by one at a time
}

func newHostDisk(host volume.VolumeHost, mounter mount.Interface) (hostDisk, error) {
	records, err := newRecords(host)
	return hostDisk{records, host, mounter, &keylock.Map{}}, err
}

func (d hostDisk) place() string { return d.dir }

func (d hostDisk) sweep() { removeEmpties(d.host.Root(), namesOrNone, safepath.Rmdir) }

func (d hostDisk) volumes() (layout, error) { return findVolumes(d.host.Root(), namesOf) }

func (d hostDisk) unmountSubpaths(ctx context.Context, pod types.UID, of func(outer string) bool) error {
	dir := filepath.Join(d.host.Root(), "pods", string(pod))
	names, err := namesIn(filepath.Join(dir, subpaths))
	for _, name := range names {
		if of(name) {
			err = errors.Join(err, d.unmountSubpathsOf(ctx, dir, name))
		}
	}
	if err != nil {
		return fmt.Errorf("what containers have of the volume: %w", err)
	}
	return nil
}

func (d hostDisk) unmountSubpathsOf(ctx context.Context, podDir, outer string) error {
	unlock, err := d.subpaths.Lock(ctx, filepath.Join(podDir, outer))
	if err != nil {
		return err
	}
	defer unlock()
	return subpath.Cleanup(ctx, d.mounter, podDir, outer)
}

func (d hostDisk) tidy(path string) error {
	err := util.RemoveEmptyParents(d.host.Root(), path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	}
	return nil
}
