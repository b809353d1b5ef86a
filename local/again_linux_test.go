package local_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestOwnersChangedByThePod: changes by the pod in its volume do not keep it from
// being set up again, and is left as it is.
func TestOwnersChangedByThePod(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	s := spec(r.disks + "/disk")
	group := int64(2000)
	args := volume.MounterArgs{FsGroup: &group}
	at, err := r.setUp(s, "1", args)
	require.NoError(t, err)
	require.NoError(t, os.Chown(at, 999, 999))
	r.restart(local.Config{})
	for range 2 {
		_, err = r.setUp(s, "1", args)
		require.NoError(t, err)
		require.Equal(t, 999, groupOf(t, at))
	}
	_, err = r.setUp(s, "2", args)
	var conflict *local.OwnerConflict
	require.ErrorAs(t, err, &conflict, "another pod is told")
	require.Equal(t, []string{at}, conflict.UsedAt)
	readOnly := args
	readOnly.ReadOnly = true
	_, err = r.setUp(s, "1", readOnly)
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	_, err = r.setUp(spec(r.disks+"/disk", "noexec"), "1", args)
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	r.tearDown("1")
}

// TestMapGroupsChangedByThePod is that for a volume that is shown with the pod's group.
func TestMapGroupsChangedByThePod(t *testing.T) {
	r := newMappingRig(t)
	if r == nil {
		return
	}
	group := int64(2000)
	args := volume.MounterArgs{FsGroup: &group}
	disk := r.disks + "/disk"
	for name, change := range map[string]func(at string) error{
		"mode":  func(at string) error { return os.Chmod(at, 0o700) },
		"group": func(at string) error { return os.Chown(at, -1, 999) },
	} {
		prepare(t, disk, 1000, 0o770|os.ModeSetgid)
		at, err := r.setUp(spec(disk), "1", args)
		require.NoError(t, err)
		if groupOf(t, disk) == 2000 {
			mounttest.SkipWithout(t, "idmap", "the file system maps no IDs")
		}
		require.NoError(t, change(at))
		r.restart(local.Config{})
		_, err = r.setUp(spec(disk), "1", args)
		require.NoError(t, err, name)
		readOnly := args
		readOnly.ReadOnly = true
		_, err = r.setUp(spec(disk), "1", readOnly)
		require.ErrorIs(t, err, volume.ErrAlreadyMounted, name)
		_, err = r.setUp(spec(disk), "1", volume.MounterArgs{IsRemount: true})
		require.ErrorIs(t, err, volume.ErrAlreadyMounted, "without its group")
		require.NoError(t, os.MkdirAll(r.disks+"/other", 0o755))
		_, err = r.setUp(spec(r.disks+"/other"), "1", args)
		require.ErrorIs(t, err, volume.ErrAlreadyMounted, name)
		r.tearDown("1")
		r.restart(local.Config{MapGroups: true})
	}
}

// TestOwnersForReaders: a pod whose containers only read is in the group that is to read;
// one with a read-only claim changes nothing on the disk.
func TestOwnersForReaders(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	file := r.disks + "/disk/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	group := int64(2000)
	claim := spec(r.disks + "/disk")
	claim.ReadOnly = true
	for _, test := range []struct {
		spec  *volume.Spec
		args  volume.MounterArgs
		group int
		mode  os.FileMode
	}{
		{claim, volume.MounterArgs{FsGroup: &group}, 0, 0o600},
		{spec(r.disks + "/disk"), volume.MounterArgs{FsGroup: &group, ReadOnly: true}, 2000, 0o660},
	} {
		_, err := r.setUp(test.spec, "1", test.args)
		require.NoError(t, err)
		info, err := os.Lstat(file)
		require.NoError(t, err)
		require.Equal(t, test.mode, info.Mode())
		require.Equal(t, test.group, groupOf(t, file))
		r.tearDown("1")
	}
}

// A pausingMounter delays the first mount.
type pausingMounter struct {
	mount.Interface
	once        sync.Once
	begun, goOn chan struct{}
}

func (p *pausingMounter) Mount(ctx context.Context, req mount.Request) error {
	p.once.Do(func() {
		close(p.begun)
		<-p.goOn
	})
	return p.Interface.Mount(ctx, req)
}

// TestNestedOwnersAreSerialized checks that volumes which contain one another, also by another path, are
// set up one after the other, and that the later SetUp fails if it requests another group.
// The same holds if the first pod has no group.
func TestNestedOwnersAreSerialized(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	inner := r.disks + "/disk/deep"
	again := r.disks + "/again"
	require.NoError(t, os.MkdirAll(inner, 0o755))
	require.NoError(t, os.WriteFile(inner+"/file", nil, 0o600))
	require.NoError(t, os.Mkdir(again, 0o755))
	require.NoError(t, unix.Mount(r.disks+"/disk", again, "", unix.MS_BIND, ""))
	group, other := int64(3000), int64(2000)
	for name, test := range map[string]struct {
		first, second string
		group         *int64 // of the first
	}{
		"outer second":    {inner, r.disks + "/disk", &group},
		"by another path": {inner, again, &group},
		"no group":        {inner, r.disks + "/disk", nil},
		"inner second":    {r.disks + "/disk", inner, &group},
	} {
		require.NoError(t, os.Chown(inner+"/file", 0, 3000))
		require.NoError(t, os.Chown(inner, 0, 3000))
		p := &pausingMounter{Interface: r.mount, begun: make(chan struct{}), goOn: make(chan struct{})}
		r.restart(local.Config{Mounter: p})
		a, b := r.mounter(t, spec(test.first), "1"), r.mounter(t, spec(test.second), "2")
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- a.SetUp(t.Context(), volume.MounterArgs{FsGroup: test.group}) }()
		<-p.begun
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.ErrorIs(t, b.SetUp(ctx, volume.MounterArgs{FsGroup: &other}), context.DeadlineExceeded, name)
		cancel()
		go func() { second <- b.SetUp(t.Context(), volume.MounterArgs{FsGroup: &other}) }()
		close(p.goOn)
		require.NoError(t, <-first, name)
		var conflict *local.OwnerConflict
		require.ErrorAs(t, <-second, &conflict, name)
		require.Equal(t, 3000, groupOf(t, inner+"/file"), name)
		r.tearDown("1")
	}
}

// countWaiting counts the goroutines that wait for a file system.
func countWaiting() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "created by github.com/volumekit/volumekit/local.(*Plugin).queryOwners")
}

// TestHungOwners checks that a file system which does not answer delays no caller beyond its
// context, and that one thread waits for it.
func TestHungOwners(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	dead := r.disks + "/dead"
	require.NoError(t, os.Mkdir(dead, 0o755))
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		mounttest.SkipWithout(t, "fuse", err)
	}
	defer func() { _ = dev.Close() }()
	require.NoError(t, unix.Mount("dead", dead, "fuse.dead", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev.Fd())))
	t.Cleanup(func() { _ = unix.Unmount(dead, unix.MNT_DETACH) })
	group := int64(2000)
	setUp := func(uid string, args volume.MounterArgs) {
		t.Helper()
		m := r.mounter(t, spec(dead), podUID(uid))
		ended := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		go func() { ended <- m.SetUp(ctx, args) }()
		select {
		case err := <-ended:
			if args.FsGroup != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		case <-time.After(longWait):
			require.Fail(t, "the context has ended, and SetUp has not")
		}
	}
	for _, mapped := range []bool{false, true} {
		r.restart(local.Config{MapGroups: mapped})
		before := countWaiting()
		setUp("4", volume.MounterArgs{FsGroup: &group})
		setUp("1", volume.MounterArgs{})    // up, if a bind asks for nothing
		require.Eventually(t, func() bool { // the deadline may have been too early for the first
			setUp("2", volume.MounterArgs{FsGroup: &group})
			return countWaiting() > before || !mapped
		}, longWait, tick)
		for range 3 {
			setUp("2", volume.MounterArgs{FsGroup: &group})
			setUp("3", volume.MounterArgs{FsGroup: &group})
		}
		require.LessOrEqual(t, countWaiting(), before+1, "one thread waits")
	}
	require.NoError(t, dev.Close())
	require.Eventually(t, func() bool { return countWaiting() == 0 }, longWait, tick)
}
