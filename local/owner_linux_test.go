package local_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func groupOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return int(info.Sys().(*syscall.Stat_t).Gid)
}

// TestOwners checks that a volume changes to the group of its first pod, and that a pod
// which requests another group gets an error while the volume is in use.
func TestOwners(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	require.NoError(t, os.MkdirAll(r.disks+"/disk/deep", 0o755))
	require.NoError(t, os.WriteFile(r.disks+"/disk/deep/file", nil, 0o600))
	s := spec(r.disks + "/disk")
	for _, readOnly := range []bool{true, false} {
		ro := *s
		ro.ReadOnly = readOnly
		require.Equal(t, !readOnly, r.mounter(t, &ro, "1").GetAttributes().Managed)
	}
	group, other := int64(2000), int64(3000)
	want, wantOther := volume.MounterArgs{FsGroup: &group}, volume.MounterArgs{FsGroup: &other}
	at, err := r.setUp(s, "1", want)
	require.NoError(t, err)
	for _, path := range []string{at, at + "/deep", at + "/deep/file"} {
		require.Equal(t, 2000, groupOf(t, path), path)
	}
	_, err = r.setUp(s, "1", want)
	require.NoError(t, err, "again")
	_, err = r.setUp(s, "2", want)
	require.NoError(t, err, "the same")
	_, err = r.setUp(s, "3", volume.MounterArgs{})
	require.NoError(t, err, "any")
	before := mountsBelow(t, r.mount, r.dir)
	_, err = r.setUp(s, "4", wantOther)
	var conflict *local.OwnerConflict
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, int64(2000), conflict.HaveGroup)
	require.Equal(t, int64(3000), conflict.WantGroup)
	require.Len(t, conflict.UsedAt, 3)
	require.Equal(t, before, mountsBelow(t, r.mount, r.dir))
	require.Equal(t, 2000, groupOf(t, at))

	var told *local.OwnerConflict
	r.restart(local.Config{OnOwnerConflict: func(_ context.Context, c *local.OwnerConflict) error {
		told = c
		return nil
	}})
	_, err = r.setUp(s, "4", wantOther)
	require.NoError(t, err, "as it is")
	require.NotNil(t, told)
	require.Equal(t, 2000, groupOf(t, at))
	for _, uid := range []string{"1", "2", "3", "4"} {
		r.tearDown(podUID(uid))
	}
	readOnly := *s
	readOnly.ReadOnly = true
	_, err = r.setUp(&readOnly, "5", wantOther)
	require.NoError(t, err)
	require.Equal(t, 2000, groupOf(t, r.disks+"/disk"), "it is read-only")
	r.tearDown("5")
	_, err = r.setUp(s, "5", wantOther)
	require.NoError(t, err)
	require.Equal(t, 3000, groupOf(t, r.disks+"/disk/deep/file"), "nobody else uses it now")
	r.tearDown("5")
}

// TestOwnersResumed checks that the next pod's SetUp continues an interrupted change of the
// group, also with OnRootMismatch, since the root changes last.
func TestOwnersResumed(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	require.NoError(t, os.WriteFile(r.disks+"/disk/file", nil, 0o600))
	group, policy := int64(2000), v1.FSGroupChangeOnRootMismatch
	args := volume.MounterArgs{FsGroup: &group, FSGroupChangePolicy: &policy}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s := spec(r.disks + "/disk")
	err := r.mounter(t, s, "1").SetUp(ended, args)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	_, err = r.setUp(s, "1", args)
	require.NoError(t, err)
	require.Equal(t, 2000, groupOf(t, r.disks+"/disk/file"))
	r.tearDown("1")
	require.NoError(t, os.Chown(r.disks+"/disk/file", 0, 7))
	_, err = r.setUp(s, "1", args)
	require.NoError(t, err)
	require.Equal(t, 7, groupOf(t, r.disks+"/disk/file"), "the root is right: nothing else is looked at")
	r.tearDown("1")
	bad := int64(-1)
	_, err = r.setUp(s, "1", volume.MounterArgs{FsGroup: &bad})
	require.Equal(t, volume.Final, volume.KindOf(err))
	require.ErrorContains(t, err, "Group")
}

// TestOwnersOfNested: two volumes, one in the other, are like one for two pods.
func TestOwnersOfNested(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	require.NoError(t, os.MkdirAll(r.disks+"/disk/inner", 0o755))
	require.NoError(t, os.WriteFile(r.disks+"/disk/inner/file", nil, 0o600))
	outer, inner := spec(r.disks+"/disk"), spec(r.disks+"/disk/inner")
	group, other := int64(2000), int64(3000)
	want, wantOther := volume.MounterArgs{FsGroup: &group}, volume.MounterArgs{FsGroup: &other}
	refused := func(s *volume.Spec, uid string) {
		t.Helper()
		_, err := r.setUp(s, podUID(uid), wantOther)
		var conflict *local.OwnerConflict
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, int64(2000), conflict.HaveGroup)
		require.Len(t, conflict.UsedAt, 1)
		require.Equal(t, 2000, groupOf(t, r.disks+"/disk/inner/file"))
	}

	_, err := r.setUp(outer, "1", want)
	require.NoError(t, err)
	refused(inner, "2")
	_, err = r.setUp(inner, "2", want)
	require.NoError(t, err, "the same")
	r.tearDown("1")

	refused(outer, "1")
	_, err = r.setUp(outer, "1", want)
	require.NoError(t, err, "the same")
	r.tearDown("1")
	r.tearDown("2")
	_, err = r.setUp(outer, "1", wantOther)
	require.NoError(t, err, "nobody else is in it now")
	require.Equal(t, 3000, groupOf(t, r.disks+"/disk/inner/file"))
	r.tearDown("1")
}

// TestUnchangeableOwners: a volume that is read-only as a whole keeps its owners, and the embedder
// decides about single files that do.
func TestUnchangeableOwners(t *testing.T) {
	testbed.Disk{FSType: "ext4", Size: 64 << 20, Options: []string{"-q"}}.Run(t, func(t *testing.T, disk string) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		m := mount.New(mount.Config{})
		require.NoError(t, os.MkdirAll(dir+"/disks/disk", 0o755))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: disk, Target: dir + "/disks/disk"}))
		defer func() { _ = unix.Unmount(dir+"/disks/disk", unix.MNT_DETACH) }()
		testbed.Fill(t, disk, "immutable")
		testbed.Protect(t, disk+"/immutable", testbed.Immutable)
		defer testbed.Protect(t, disk+"/immutable", 0)
		group := int64(2000)
		args := volume.MounterArgs{FsGroup: &group}
		var config local.Config
		setUp := func(options ...string) error {
			config.Mounter = m
			n := diskNode(t, dir, config)
			mounter := n.mounter(t, spec(n.disks+"/disk", options...), "1")
			if err := mounter.SetUp(t.Context(), args); err != nil {
				return err
			}
			return n.unmounter(t, "1").TearDown(t.Context())
		}
		require.NoError(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		require.NoError(t, setUp())
		n := diskNode(t, dir, config)
		for _, pod := range []types.UID{"2", "3"} {
			require.NoError(t, n.mounter(t, spec(n.disks+"/disk"), pod).SetUp(t.Context(), args), "pod %s", pod)
		}
		for _, pod := range []types.UID{"2", "3"} {
			require.NoError(t, n.unmounter(t, pod).TearDown(t.Context()))
		}
		require.ErrorIs(t, setUp("rw"), unix.EROFS, "the volume says that it is written to")
		require.NoError(t, unix.Mount("", disk, "", unix.MS_REMOUNT, ""))

		require.ErrorIs(t, setUp(), unix.EPERM)
		config.OnUnchanged = func(_ context.Context, file string, err error) error {
			require.Equal(t, dir+"/disks/disk/immutable", file)
			require.ErrorIs(t, err, unix.EPERM)
			return nil
		}
		require.NoError(t, setUp())
		require.Equal(t, 2000, groupOf(t, disk))
	})
}
