package local_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestRemovedOnOneOfSeveralDisks: directories of several file systems have the same path in them. One is
// mounted below a root.
func TestRemovedOnOneOfSeveralDisks(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	roots, disks := []string{r.dir + "/a", r.dir + "/b"}, []string{r.dir + "/a", r.dir + "/b", r.dir + "/b/disk"}
	for _, disk := range disks {
		require.NoError(t, os.Mkdir(disk, 0o755))
		require.NoError(t, r.mount.Mount(t.Context(), mount.Request{Source: "tmpfs", Target: disk, FSType: "tmpfs"}))
		require.NoError(t, os.Mkdir(disk+"/x", 0o755))
	}
	r.plugin = local.New(local.Config{Mounter: r.mount, Roots: roots})
	require.NoError(t, r.plugin.Init(t.Context(), r.host))
	for _, disk := range disks {
		at, err := r.setUp(spec(disk+"/x"), "1", volume.MounterArgs{})
		require.NoError(t, err)
		require.NoError(t, os.Remove(disk+"/x"))
		found, err := r.plugin.ConstructVolumeSpec(t.Context(), "pv", at)
		require.NoError(t, err)
		require.Equal(t, disk+"/x", found.Spec.PersistentVolume.Spec.Local.Path)
		r.tearDown("1")
	}
	require.Empty(t, mountsBelow(t, r.mount, r.host.Root()))
	for _, disk := range slices.Backward(disks) {
		require.NoError(t, r.mount.Unmount(t.Context(), disk))
	}
}

// TestRemovedAndReplaced: whatever takes the place of a removed directory, the volume of its pod stays.
func TestRemovedAndReplaced(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	disk := r.disks + "/disk"
	s := spec(disk)
	for name, replace := range map[string]func() error{
		"file": func() error { return os.WriteFile(disk, nil, 0o600) },
		"link": func() error { return os.Symlink(r.dir, disk) },
		"mount": func() error {
			return errors.Join(os.Mkdir(disk, 0o755), unix.Mount("tmpfs", disk, "tmpfs", 0, ""))
		},
	} {
		require.NoError(t, os.RemoveAll(disk))
		require.NoError(t, os.Mkdir(disk, 0o755))
		at, err := r.setUp(s, "1", volume.MounterArgs{})
		require.NoError(t, err, name)
		before := mountsBelow(t, r.mount, at)
		require.NoError(t, os.Remove(disk), name)
		require.NoError(t, replace(), name)
		_, err = r.setUp(s, "1", volume.MounterArgs{IsRemount: true})
		require.NoError(t, err, name)
		require.Equal(t, before[0].ID, mountsBelow(t, r.mount, at)[0].ID, name)
		negative := int64(-1)
		_, err = r.setUp(s, "1", volume.MounterArgs{IsRemount: true, FsGroup: &negative})
		require.Error(t, err, name)
		r.tearDown("1")
		_ = unix.Unmount(disk, 0)
	}
}
