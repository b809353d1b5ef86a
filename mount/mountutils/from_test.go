package mountutils_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	peer "k8s.io/mount-utils"
)

// TestFromFakeMounter: a FakeMounter behind From records the mounts and actions that a test
// expects.
func TestFromFakeMounter(t *testing.T) {
	dir := newTree(t)
	fake := peer.NewFakeMounter(nil)
	m := mountutils.From(fake, mountutils.WithAllow(allowAllConfig.Allow))
	bind := mount.Request{Source: filepath.Join(dir, "source"), Target: filepath.Join(dir, "target"), Options: []string{"ro"}}
	device := mount.Request{Source: "/dev/sdz", Target: filepath.Join(dir, "other"), FSType: "ext4"}
	for range 2 {
		require.NoError(t, m.Mount(t.Context(), bind))
		require.NoError(t, m.Mount(t.Context(), device))
	}
	require.Equal(t, []peer.MountPoint{
		{Device: bind.Source, Path: bind.Target, Opts: []string{"bind", "rprivate", "ro"}},
		{Device: "/dev/sdz", Path: device.Target, Type: "ext4", Opts: []string{}},
	}, fake.MountPoints)

	is, err := m.IsMountPoint(t.Context(), bind.Target)
	require.NoError(t, err)
	require.True(t, is)
	refs, err := m.MountRefs(t.Context(), bind.Source)
	require.NoError(t, err)
	require.Equal(t, []string{bind.Target}, refs)
	from, err := m.MountsFrom(t.Context(), "/dev/sdz")
	require.NoError(t, err)
	require.Len(t, from, 1)
	require.Equal(t, device.Target, from[0].Mountpoint)
	list, err := m.List(t.Context())
	require.NoError(t, err)
	at, ok := mount.Table(list).At(bind.Target)
	require.True(t, ok)
	require.NotZero(t, at.Flags&mount.ReadOnly)

	writable := bind
	writable.Options = nil
	require.ErrorIs(t, m.Mount(t.Context(), writable), mount.ErrMounted)
	for range 2 {
		require.NoError(t, m.Unmount(t.Context(), bind.Target))
		require.NoError(t, m.Unmount(t.Context(), device.Target))
	}
	require.Empty(t, fake.MountPoints)
	require.Len(t, fake.GetLog(), 4, "repeated calls make no further actions")

	device.IDMap = mount.IDMap{UIDs: []mount.IDRange{{Count: 1}}, GIDs: []mount.IDRange{{Count: 1}}}
	require.ErrorIs(t, m.Mount(t.Context(), device), errors.ErrUnsupported)
}

func TestFromSecrets(t *testing.T) {
	dir := newTree(t)
	fake := peer.NewFakeMounter(nil)
	req := mount.Request{
		Source: "//a/b", Target: filepath.Join(dir, "target"), FSType: "cifs",
		Secrets: []mount.Secret{mount.NewSecret("password=hunter2")},
	}
	require.NoError(t, mountutils.From(fake).Mount(t.Context(), req))
	require.Equal(t, []string{"nosuid", "nodev", "password=hunter2"}, fake.MountPoints[0].Opts)
}

func TestFromSubmounts(t *testing.T) {
	dir := newTree(t)
	m := mountutils.From(peer.NewFakeMounter(nil))
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	sub := mount.Request{Source: filepath.Join(dir, "other"), Target: filepath.Join(source, "sub")}
	require.NoError(t, m.Mount(t.Context(), sub))
	req := mount.Request{Source: source, Target: target}
	require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrSubmounts)
	req.Submounts = mount.IncludeSubmounts
	require.NoError(t, m.Mount(t.Context(), req))
	require.NoError(t, m.UnmountTree(t.Context(), source), "the path is no mount point")
	is, err := m.IsMountPoint(t.Context(), sub.Target)
	require.NoError(t, err)
	require.True(t, is)
}

// A hangingPeer peer does nothing until it is released.
type hangingPeer struct {
	*peer.FakeMounter
	begun, release chan struct{}
}

func newHangingPeer() hangingPeer {
	return hangingPeer{peer.NewFakeMounter(nil), make(chan struct{}, 8), make(chan struct{})}
}

func (h hangingPeer) MountSensitive(source, target, fsType string, options, sensitive []string) error {
	h.begun <- struct{}{}
	<-h.release
	return h.FakeMounter.MountSensitive(source, target, fsType, options, sensitive)
}

func (h hangingPeer) Unmount(target string) error {
	h.begun <- struct{}{}
	<-h.release
	return h.FakeMounter.Unmount(target)
}

// TestFromLateMount: a mount that the peer completes after the caller's context has ended is
// unmounted before the next call for its target begins.
func TestFromLateMount(t *testing.T) {
	noLeaks := mounttest.NoLeaks(t)
	dir := newTree(t)
	h := newHangingPeer()
	m := mountutils.From(h)
	req := mount.Request{Source: "x", Target: filepath.Join(dir, "target"), FSType: "tmpfs"}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-h.begun
		cancel(cause)
	}()
	err := m.Mount(ctx, req)
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, mount.ErrUncertain)

	waiting, cancelWaiting := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelWaiting()
	err = m.Unmount(waiting, req.Target)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the target is locked")
	require.NotErrorIs(t, err, mount.ErrUncertain)

	close(h.release)
	req.Source = "y"
	require.NoError(t, m.Mount(t.Context(), req), "the late mount is unmounted")
	require.Equal(t, []peer.FakeAction{
		{Action: peer.FakeActionMount, Target: req.Target, Source: "x", FSType: "tmpfs"},
		{Action: peer.FakeActionUnmount, Target: req.Target},
		{Action: peer.FakeActionMount, Target: req.Target, Source: "y", FSType: "tmpfs"},
	}, h.GetLog())
	noLeaks()
}

// A writablePeer peer ignores the options and mounts writable.
type writablePeer struct{ *peer.FakeMounter }

func (l writablePeer) MountSensitive(source, target, fsType string, _, sensitive []string) error {
	return l.FakeMounter.MountSensitive(source, target, fsType, []string{"rw"}, sensitive)
}

func TestFromVerifiesFlags(t *testing.T) {
	dir := newTree(t)
	l := writablePeer{peer.NewFakeMounter(nil)}
	req := mount.Request{Source: "x", Target: filepath.Join(dir, "target"), FSType: "tmpfs", Options: []string{"ro"}}
	require.ErrorIs(t, mountutils.From(l).Mount(t.Context(), req), mount.ErrNotAsRequested)
	require.Empty(t, l.MountPoints)
}

func TestFromErrors(t *testing.T) {
	dir := newTree(t)
	fake := peer.NewFakeMounter(nil)
	target := filepath.Join(dir, "target")
	fake.MountCheckErrors = map[string]error{target: &os.PathError{Op: "stat", Path: target, Err: syscall.ESTALE}}
	m := mountutils.From(fake)
	_, err := m.IsMountPoint(t.Context(), target)
	require.ErrorIs(t, err, mount.ErrCorrupted)
	var own *mount.Error
	require.ErrorAs(t, err, &own)
	require.Equal(t, "is mount point", own.Op)
	require.ErrorIs(t, m.Unmount(t.Context(), target), syscall.ESTALE)
}

// A failingPeer peer unmounts nothing.
type failingPeer struct {
	*peer.FakeMounter
	err error
}

func (f failingPeer) Unmount(string) error { return f.err }

// TestFromBusy: From recognizes a busy mount by the text of the error, without the path in it.
func TestFromBusy(t *testing.T) {
	dir := newTree(t)
	target := filepath.Join(dir, "target") + ": target is busy"
	require.NoError(t, os.MkdirAll(target+"/inner", 0o755))
	const text = "unmount failed: %s\nUnmounting arguments: %s\nOutput: %s"
	for _, test := range []struct {
		name          string
		err           error
		inside, alone bool // whether the error is ErrBusy with a mount inside, and without
	}{
		{"util-linux", fmt.Errorf(text, "exit status 32", target, "umount: "+target+": target is busy.\n"), true, true},
		{"old util-linux", fmt.Errorf(text, "exit status 32", target, "umount: "+target+": device is busy.\n"), true, true},
		{"busybox", fmt.Errorf(text, "exit status 1", target, "umount: can't unmount "+target+": Device or resource busy\n"), true, true},
		{"other words", fmt.Errorf(text, "exit status 32", target, "umount: "+target+": das Ziel wird gerade benutzt.\n"), true, false},
		{"other failure", fmt.Errorf(text, "exit status 1", target, "umount: "+target+": must be superuser to unmount.\n"), false, false},
		{"EBUSY", syscall.EBUSY, true, true},
		{"EPERM", syscall.EPERM, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake := peer.NewFakeMounter([]peer.MountPoint{{Device: "tmpfs", Path: target, Type: "tmpfs"}})
			m := mountutils.From(failingPeer{fake, test.err})
			check := func(busy bool) {
				err := m.Unmount(t.Context(), target)
				require.ErrorIs(t, err, test.err)
				require.Equal(t, busy, errors.Is(err, mount.ErrBusy), "%v", err)
			}
			check(test.alone)
			fake.MountPoints = append(fake.MountPoints, peer.MountPoint{Device: "tmpfs", Path: target + "/inner", Type: "tmpfs"})
			check(test.inside)
		})
	}
}
