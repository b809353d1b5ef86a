package emptydir

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A mounter is a volume for a pod.
type mounter struct {
	plugin *Plugin
	source v1.EmptyDirVolumeSource
	medium medium
	memory int64 // the largest size of a tmpfs; 0: no limit
	limit  int64 // of the specification; 0: none
}

// setUp sets the volume up. FsUser has no effect, as in Kubernetes: all users may write to the volume. The
// size of a volume that is set up already does not change.
func (m *mounter) setUp(ctx context.Context, dir string, args volume.MounterArgs) error {
	want, err := m.describeDir(ctx, args)
	if err != nil {
		return err
	}
	return m.plugin.dirs.SetUp(ctx, dir, want)
}

// describeDir returns the description of the volume to set up.
func (m *mounter) describeDir(ctx context.Context, args volume.MounterArgs) (podvolume.Dir, error) {
	asked, err := m.checkArgs(args)
	if err != nil {
		return podvolume.Dir{}, err
	}
	req, err := m.request(ctx, asked)
	if err != nil {
		return podvolume.Dir{}, err
	}
	record, err := json.Marshal(m.record())
	want := podvolume.Dir{Mode: 0o777, Group: args.FsGroup, Record: record}
	if args.FsGroup != nil {
		want.Mode |= fs.ModeSetgid
	}
	want.Mount = req
	return want, err
}

// record returns the source to record, with its limit in a canonical form.
func (m *mounter) record() v1.EmptyDirVolumeSource {
	source := m.source
	if source.SizeLimit != nil {
		source.SizeLimit = resource.NewQuantity(m.limit, resource.BinarySI)
	}
	return source
}

// checkArgs refuses unsupported arguments, and returns the requested size.
func (m *mounter) checkArgs(args volume.MounterArgs) (size int64, err error) {
	switch {
	case args.SELinuxLabel != "":
		return 0, fmt.Errorf("MounterArgs.SELinuxLabel for an emptyDir: %w", volume.ErrNotSupported)
	case args.DesiredSize != nil && m.medium.fsType == "":
		return 0, fmt.Errorf("MounterArgs.DesiredSize for an emptyDir on disk: %w", volume.ErrNotSupported)
	}
	return bytesOf(field.NewPath("args", "desiredSize"), args.DesiredSize)
}

// request returns the mount of a volume of the given size, or nil for a volume on disk.
func (m *mounter) request(ctx context.Context, asked int64) (*mount.Request, error) {
	const mode = "mode=0777"
	switch m.medium.fsType {
	case tmpfs:
		size, err := m.plugin.memorySize(ctx, smallest(asked, m.memory))
		return podvolume.Tmpfs(ctx, mode, fmt.Sprintf("size=%d", size)), err
	case hugetlbfs:
		options := []string{mode, fmt.Sprintf("pagesize=%d", m.medium.page)}
		if size := smallest(asked, m.limit); size > 0 {
			options = append(options, fmt.Sprintf("size=%d", size))
		}
		return &mount.Request{Source: hugetlbfs, FSType: hugetlbfs, Options: options}, nil
	}
	return nil, nil
}
