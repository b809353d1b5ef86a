package podvolume_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Nil arguments and values without a host or a mounter work as documented, or are refused
// with a field error. A host without a root has no place for volumes: every absolute path
// would be below it.
func TestZeroValues(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	kernel := mounttest.NewFake(mount.Config{})
	dir := host.Root() + "/a"
	work := func(context.Context, string) error { return nil }
	ctx := t.Context()
	calls := map[string]func() error{
		"NewHostRoots": func() error { _, err := podvolume.NewHostRoots(t.Context(), nil, nil); return err },
		"NewHostRoots, nil pointer": func() error {
			_, err := podvolume.NewHostRoots(context.Background(), (*volume.Host)(nil), nil)
			return err
		},
		"NewHostRoots, no root": func() error { _, err := podvolume.NewHostRoots(context.Background(), &volume.Host{}, nil); return err },
		"HostRoots": func() error {
			_, _, err := (&podvolume.HostRoots{}).Find(field.NewPath("path"), "/a")
			return err
		},
		"nil HostRoots": func() error {
			_, _, err := (*podvolume.HostRoots)(nil).Find(nil, "/a")
			return err
		},
		"MatchVolume":                    func() error { return util.MatchVolume(nil, &v1.PersistentVolume{}, nil) },
		"CheckVolumeModesMatch, claim":   func() error { return util.CheckVolumeModesMatch(nil, &v1.PersistentVolume{}) },
		"CheckVolumeModesMatch, volume":  func() error { return util.CheckVolumeModesMatch(&v1.PersistentVolumeClaim{}, nil) },
		"CheckNodeAffinity":              func() error { return util.CheckNodeAffinity(nil, nil) },
		"UnmountPath":                    func() error { return util.UnmountPath(ctx, nil, dir) },
		"UnmountMountPoint, nil pointer": func() error { return util.UnmountMountPoint(ctx, (*mounttest.Fake)(nil), dir, nil) },
		"Exclusively":                    func() error { return podvolume.NewMounts(host, kernel).Exclusively(ctx, dir, nil) },
		"IfIdle":                         func() error { return podvolume.NewMounts(host, kernel).IfIdle(context.Background(), dir, nil) },
	}
	for name, p := range map[string]*podvolume.Mounts{
		"nil PodMounts": nil, "zero PodMounts": {}, "PodMounts without host": podvolume.NewMounts(nil, kernel),
		"PodMounts without mounter": podvolume.NewMounts(host, nil), "PodMounts without root": podvolume.NewMounts(&volume.Host{}, kernel),
	} {
		calls[name+" SetUp"] = func() error { return p.SetUp(ctx, dir, mount.Request{}) }
		calls[name+" TearDown"] = func() error { return p.TearDown(ctx, dir) }
		calls[name+" Exclusively"] = func() error { return p.Exclusively(ctx, dir, work) }
		calls[name+" IfIdle"] = func() error { return p.IfIdle(ctx, dir, work) }
		calls[name+" Mount"] = func() error { return p.Mount(ctx, dir, mount.Request{}) }
		calls[name+" MountFile"] = func() error { return p.MountFile(ctx, dir, mount.Request{}) }
		calls[name+" Unmount"] = func() error { return p.Unmount(ctx, dir) }
		calls[name+" CheckMounted"] = func() error { return p.CheckMounted(ctx, dir) }
		calls[name+" At"] = func() error { _, _, err := p.At(ctx, dir); return err }
		calls[name+" Below"] = func() error { _, err := p.Below(nil, dir); return err }
		calls[name+" GetMetrics"] = func() error { _, err := p.GetMetrics(ctx, dir); return err }
		calls[name+" GetCounted"] = func() error { _, err := p.GetCounted(ctx, dir, nil); return err }
	}
	for name, p := range map[string]*podvolume.Dirs{
		"nil PodDirs": nil, "zero PodDirs": {}, "PodDirs without host": podvolume.NewDirs(nil, kernel, "a/b"),
		"PodDirs without mounter": podvolume.NewDirs(host, nil, "a/b"), "PodDirs without name": podvolume.NewDirs(host, kernel, ""),
	} {
		calls[name+" SetUp"] = func() error { return p.SetUp(ctx, dir, podvolume.Dir{}) }
		calls[name+" TearDown"] = func() error { return p.TearDown(ctx, dir) }
		calls[name+" Find"] = func() error { _, err := p.Find(ctx, dir); return err }
		calls[name+" GetMetrics"] = func() error { _, err := p.GetMetrics(ctx, dir); return err }
	}
	for name, p := range map[string]*podvolume.Notes{
		"nil PodNotes": nil, "zero PodNotes": {}, "PodNotes without mounts": podvolume.NewNotes(nil, "a/b"),
		"PodNotes without name": podvolume.NewNotes(podvolume.NewMounts(host, kernel), ""),
	} {
		calls[name+" Write"] = func() error { return p.Write(ctx, dir, nil) }
		calls[name+" Read"] = func() error { _, err := p.Read(ctx, dir); return err }
		calls[name+" Remove"] = func() error { return p.Remove(ctx, dir) }
	}
	for name, call := range calls {
		var refused *field.Error
		require.NotPanics(t, func() { require.ErrorAs(t, call(), &refused, name) }, name)
	}
}

// What nil means is documented for each of these.
func TestNilArguments(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	kernel := mounttest.NewFake(mount.Config{})
	require.Zero(t, podvolume.Memory(nil))
	require.Empty(t, util.JoinMountOptions(nil, nil))
	require.NoError(t, util.Transient(nil))
	require.NoError(t, util.UnmountMountPoint(context.Background(), kernel, host.Root()+"/missing", nil))
	_, err = podvolume.NewMounts(host, kernel).GetCounted(t.Context(), host.Root(), nil)
	require.Error(t, err)
	_, ok := (*podvolume.HostRoots)(nil).Written("/a")
	require.False(t, ok)
}
