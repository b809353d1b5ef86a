package local_test

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// newMappingRig is newRig, where groups are mapped.
func newMappingRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	if r != nil {
		r.restart(local.Config{MapGroups: true})
	}
	return r
}

// prepare gives a directory to a group.
func prepare(t *testing.T, dir string, group int, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.Chown(dir, 0, group))
	require.NoError(t, os.Chmod(dir, mode))
}

// TestMapGroups: pods with different groups use one volume, each with its own, and what
// is stored stays the volume's.
func TestMapGroups(t *testing.T) {
	r := newMappingRig(t)
	if r == nil {
		return
	}
	disk, s := r.disks+"/disk", spec(r.disks+"/disk")
	require.NoError(t, os.MkdirAll(disk+"/deep", 0o755))
	group, other := int64(2000), int64(3000)

	at, err := r.setUp(s, "1", volume.MounterArgs{FsGroup: &group})
	require.NoError(t, err)
	require.Equal(t, 2000, groupOf(t, disk+"/deep"), "it was root's, and has been changed")
	require.Equal(t, 2000, groupOf(t, at+"/deep"))

	for range 2 { // idempotent
		at, err = r.setUp(s, "2", volume.MounterArgs{FsGroup: &other})
		if errors.As(err, new(*local.OwnerConflict)) {
			mounttest.SkipWithout(t, "idmap", "the file system maps no IDs")
		}
		require.NoError(t, err)
	}
	require.Equal(t, 3000, groupOf(t, at))
	require.Equal(t, 3000, groupOf(t, at+"/deep"))
	require.Equal(t, 2000, groupOf(t, disk+"/deep"))
	require.NoError(t, os.WriteFile(at+"/deep/new", nil, 0o600))
	require.Equal(t, 3000, groupOf(t, at+"/deep/new"))
	require.Equal(t, 2000, groupOf(t, disk+"/deep/new"))

	r.tearDown("2")
	user := int64(1000)
	at, err = r.setUp(s, "3", volume.MounterArgs{FsGroup: &other, FsUser: &user})
	require.NoError(t, err)
	require.Equal(t, 3000, groupOf(t, at), "also for a pod with a user")
	r.tearDown("3")
	r.tearDown("1")
}

// TestMapGroupsOfOthers: a volume that is root's, or that does not let its group in, is
// not shown as another group's.
func TestMapGroupsOfOthers(t *testing.T) {
	r := newMappingRig(t)
	if r == nil {
		return
	}
	group := int64(2000)
	for name, test := range map[string]struct {
		group int
		mode  os.FileMode
	}{
		"root":    {0, 0o770 | os.ModeSetgid},
		"closed":  {3000, 0o700 | os.ModeSetgid},
		"no set":  {3000, 0o770},
		"reading": {3000, 0o750 | os.ModeSetgid},
	} {
		disk := r.disks + "/" + name
		require.NoError(t, os.Mkdir(disk, 0o700))
		prepare(t, disk, test.group, test.mode)
		_, err := r.setUp(spec(disk), "1", volume.MounterArgs{FsGroup: &group})
		require.NoError(t, err, name)
		require.Equal(t, 2000, groupOf(t, disk), name)
		r.tearDown("1")
	}
}

// TestMapGroupsRefused: root's group and invalid groups are not shown in place of another.
func TestMapGroupsRefused(t *testing.T) {
	r := newMappingRig(t)
	if r == nil {
		return
	}
	disk := r.disks + "/disk"
	require.NoError(t, os.MkdirAll(disk, 0o700))
	prepare(t, disk, 3000, 0o770|os.ModeSetgid)
	for _, group := range []int64{-1, 1<<32 - 1, 1 << 32, 1<<32 + 5} {
		_, err := r.setUp(spec(disk), "1", volume.MounterArgs{FsGroup: &group})
		require.ErrorContains(t, err, "Group", group)
		require.Equal(t, 3000, groupOf(t, disk), group)
		require.Empty(t, mountsBelow(t, r.mount, r.host.Root()), group)
	}
	root := int64(0)
	_, err := r.setUp(spec(disk), "1", volume.MounterArgs{FsGroup: &root})
	require.NoError(t, err)
	require.Equal(t, 0, groupOf(t, disk))
	r.tearDown("1")
}

// TestMapGroupsUnsupported: on a file system that maps no IDs the owners are changed.
func TestMapGroupsUnsupported(t *testing.T) {
	r := newMappingRig(t)
	if r == nil {
		return
	}
	disk := r.disks + "/disk"
	require.NoError(t, os.MkdirAll(disk, 0o700))
	if err := unix.Mount("ramfs", disk, "ramfs", 0, ""); err != nil {
		mounttest.SkipWithout(t, "ramfs", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	prepare(t, disk, 3000, 0o770|os.ModeSetgid)
	group := int64(2000)
	at, err := r.setUp(spec(disk), "1", volume.MounterArgs{FsGroup: &group})
	require.NoError(t, err)
	require.Equal(t, 2000, groupOf(t, at))
	require.Equal(t, 2000, groupOf(t, disk))
	r.tearDown("1")
}
