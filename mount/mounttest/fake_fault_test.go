package mounttest_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestFakeFaultsMatchCalls(t *testing.T) {
	s := newFakeTest(t)
	s.Inject(mounttest.Fault{Op: mounttest.OpMount, Path: s.path("other"), Err: syscall.EIO, Times: 1})
	require.NoError(t, s.bind("source", "target"))
	require.ErrorIs(t, s.bind("source", "other"), syscall.EIO)
	require.Len(t, s.table(), 2, "a call that fails has changed nothing")
	require.NoError(t, s.bind("source", "other"), "the fault is used up")

	s.Inject(mounttest.Fault{Err: syscall.ENOMEM})
	for range 2 {
		require.ErrorIs(t, s.unmount("target"), syscall.ENOMEM)
		_, err := s.List(t.Context())
		require.ErrorIs(t, err, syscall.ENOMEM)
		_, err = s.IsMountPoint(t.Context(), "/")
		require.ErrorIs(t, err, syscall.ENOMEM)
		_, err = s.MountRefs(t.Context(), "/")
		require.ErrorIs(t, err, syscall.ENOMEM)
	}
	s.ClearFaults()
	require.NoError(t, s.unmount("target"))
}

func TestFakeFaultAfterChange(t *testing.T) {
	s := newFakeTest(t)
	s.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EIO, After: true})
	s.Inject(mounttest.Fault{Op: mounttest.OpUnmount, Err: syscall.EINTR, After: true})

	err := s.bind("source", "target")
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, mount.ErrUncertain)
	s.entryAt("target")

	err = s.unmount("target")
	require.ErrorIs(t, err, syscall.EINTR)
	require.ErrorIs(t, err, mount.ErrUncertain)
	require.Len(t, s.table(), 1)

	err = s.bind("none", "target")
	require.NotErrorIs(t, err, mount.ErrUncertain, "no work was done")
	require.ErrorIs(t, err, syscall.ENOENT)
}

func TestFakeDelayEndsWithTheContext(t *testing.T) {
	gaveUp := errors.New("gave up")
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			s := newFakeTest(t)
			require.NoError(t, s.bind("source", "target"))
			s.Inject(mounttest.Fault{Delay: time.Hour, After: after, Times: 1})
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gaveUp)
				defer cancel()
				err := s.Unmount(ctx, s.path("target"))
				var mountError *mount.Error
				require.ErrorAs(t, err, &mountError)
				require.ErrorIs(t, err, gaveUp)
				require.Equal(t, after, errors.Is(err, mount.ErrUncertain))
			})
			is, err := s.IsMountPoint(t.Context(), s.path("target"))
			require.NoError(t, err)
			require.Equal(t, !after, is)
		})
	}
}

func TestFakeDelayWithoutError(t *testing.T) {
	s := newFakeTest(t)
	s.Inject(mounttest.Fault{Delay: time.Minute})
	synctest.Test(t, func(t *testing.T) {
		s := s
		s.t = t
		start := time.Now()
		require.NoError(t, s.bind("source", "target"))
		require.Equal(t, time.Minute, time.Since(start))
		_, err := s.IsMountPoint(t.Context(), s.path("target"))
		require.NoError(t, err)
		require.Equal(t, 2*time.Minute, time.Since(start))
	})
}

func TestFakeEndedContext(t *testing.T) {
	s := newFakeTest(t)
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gaveUp)
	err := s.Mount(ctx, mount.Request{Source: s.path("source"), Target: s.path("target")})
	require.ErrorIs(t, err, gaveUp)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, s.table(), 1)

	require.NoError(t, s.bind("source", "target"))
	require.ErrorIs(t, s.Unmount(ctx, s.path("target")), gaveUp)
	s.entryAt("target")
}

func TestFakeDelayBlocksOneTarget(t *testing.T) {
	s := newFakeTest(t)
	s.Inject(mounttest.Fault{Path: s.path("target"), Delay: time.Hour, Times: 1})
	synctest.Test(t, func(t *testing.T) {
		s := s
		s.t = t
		start := time.Now()
		done := make(chan error)
		go func() { done <- s.bind("source", "target") }()
		synctest.Wait()

		require.NoError(t, s.bind("source", "other"))
		require.Zero(t, time.Since(start), "other targets are not locked")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, s.Unmount(ctx, s.path("target")), context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, s.unmount("target"))
		require.Equal(t, time.Hour, time.Since(start))
		require.NoError(t, <-done)
	})
	require.Len(t, s.table(), 2)
}

// TestFaultWithoutMatch: a fault that can match no call fails the test that injects it.
func TestFaultWithoutMatch(t *testing.T) {
	s := newFakeTest(t)
	for message, fault := range map[string]mounttest.Fault{
		`mounttest: Fault.Op "Mount": must be a constant, such as OpMount`:               {Op: "Mount", Err: syscall.EIO},
		`mounttest: Fault.Path "target": must be absolute`:                               {Path: "target", Err: syscall.EIO},
		`mounttest: Fault.Path "/target": must be empty, as Fault.Op "list" has no path`: {Op: mounttest.OpList, Path: "/target", Err: syscall.EIO},
	} {
		require.PanicsWithValue(t, message, func() { s.Inject(fault) })
	}
	require.NoError(t, s.bind("source", "target"))
}

// TestKindsOfMount: the kinds of mount of mount(8) are no types, as for the kernel.
func TestKindsOfMount(t *testing.T) {
	s := newFakeTest(t)
	for _, fsType := range []string{"bind", "rbind", "none", "auto"} {
		err := s.Mount(t.Context(), mount.Request{Source: s.path("source"), Target: s.path("target"), FSType: fsType})
		require.ErrorIs(t, err, mount.ErrUnknownFSType, fsType)
		require.ErrorIs(t, err, syscall.ENODEV, fsType)
		require.ErrorContains(t, err, "file system type "+fsType)
	}
	require.Len(t, s.table(), 1)
}

// TestZeroFake: the zero Fake is one of NewFake with the zero configuration.
func TestZeroFake(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	for name, call := range map[string]func(f *mounttest.Fake) error{
		"Mount": func(f *mounttest.Fake) error {
			return f.Mount(t.Context(), mount.Request{Source: source, Target: target})
		},
		"Unmount": func(f *mounttest.Fake) error { return f.Unmount(t.Context(), target) },
		"Resolve": func(f *mounttest.Fake) error { _, err := f.Resolve(t.Context(), target); return err },
		"Inject": func(f *mounttest.Fake) error {
			f.Inject(mounttest.Fault{Err: syscall.EIO})
			return f.Mount(t.Context(), mount.Request{Source: source, Target: target})
		},
		"Watch": func(f *mounttest.Fake) error {
			ctx, cancel := context.WithCancel(t.Context())
			return f.Watch(ctx, cancel)
		},
		"WatchMounts": func(f *mounttest.Fake) error {
			ctx, cancel := context.WithCancel(t.Context())
			return f.WatchMounts(ctx, func(mount.TableChange) { cancel() })
		},
	} {
		zero, made := new(mounttest.Fake), mounttest.NewFake(mount.Config{})
		require.Equal(t, call(made), call(zero), name)
		want, err := made.List(t.Context())
		table, zeroErr := zero.List(t.Context())
		require.Equal(t, err, zeroErr, name)
		require.Equal(t, want, table, name)
		require.Equal(t, made.Log(), zero.Log(), name)
	}
}
