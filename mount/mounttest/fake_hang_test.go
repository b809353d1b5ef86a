package mounttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// deadline is the timeout of calls that hang. In a synctest bubble it costs no time.
const deadline = time.Minute

// requireHangs runs a call that must hang until its context ends.
func requireHangs(t *testing.T, call func(ctx context.Context) error) {
	t.Helper()
	cause := errors.New("gave up")
	ctx, cancel := context.WithTimeoutCause(t.Context(), deadline, cause)
	defer cancel()
	start := time.Now()
	err := call(ctx)
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, mount.ErrUncertain)
	require.Equal(t, deadline, time.Since(start))
}

func (s fakeTest) bindWithContext(ctx context.Context, source, target string) error {
	return s.Mount(ctx, mount.Request{Source: s.path(source), Target: s.path(target)})
}

// TestFakeHangsByType: the mounts of one type hang; mounts of other types, and queries that
// only read the mount table, do not.
func TestFakeHangsByType(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.mount("nfs4", "server:/a", "target"))
	require.NoError(t, s.mount("tmpfs", "x", "source/sub"))
	s.Inject(mounttest.Fault{FSType: "nfs4", Hang: true})
	synctest.Test(t, func(t *testing.T) {
		s := s
		s.t = t
		before := s.table()
		start := time.Now()
		is, err := s.IsMountPoint(t.Context(), s.path("target"))
		require.NoError(t, err)
		require.True(t, is)
		_, err = s.MountRefs(t.Context(), s.path("target"))
		require.NoError(t, err)
		place, err := s.Resolve(t.Context(), s.path("target"))
		require.NoError(t, err)
		require.Equal(t, "nfs4", place.Mount.FSType)
		mounts, err := s.MountsFrom(t.Context(), "server:/a")
		require.NoError(t, err)
		require.Len(t, mounts, 1)
		require.NoError(t, s.bind("target", "other"), "a bind of the root sends no request")
		require.NoError(t, s.unmount("source/sub"))
		require.Zero(t, time.Since(start))
		require.NotEqual(t, before, s.table())
		before = s.table()

		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := s.IsMountPoint(ctx, s.path("target/in")); return err },
			func(ctx context.Context) error { _, err := s.MountRefs(ctx, s.path("other/in")); return err },
			func(ctx context.Context) error { _, err := s.Resolve(ctx, s.path("target/in")); return err },
			func(ctx context.Context) error { return s.Unmount(ctx, s.path("target/in")) },
			func(ctx context.Context) error { return s.UnmountTree(ctx, s.path("target/in")) },
			func(ctx context.Context) error { return s.bindWithContext(ctx, "target/in", "source") },
			func(ctx context.Context) error { return s.bindWithContext(ctx, "source", "target/in") },
			func(ctx context.Context) error {
				return s.Mount(ctx, mount.Request{Source: "server:/b", Target: s.path("source"), FSType: "nfs4"})
			},
		} {
			requireHangs(t, call)
			require.Equal(t, before, s.table())
		}
	})
}

// TestFakeHangsByMountPoint: only the mount at the path of the fault hangs, and only for the
// operation of the fault.
func TestFakeHangsByMountPoint(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.bind("source", "target"))
	require.NoError(t, s.bind("source", "other"))
	s.Inject(mounttest.Fault{Op: mounttest.OpIsMountPoint, Path: s.path("target"), Hang: true, Times: 1})
	synctest.Test(t, func(t *testing.T) {
		s := s
		s.t = t
		start := time.Now()
		for _, p := range []string{"source/sub", "other/sub"} {
			_, err := s.IsMountPoint(t.Context(), s.path(p))
			require.NoError(t, err)
		}
		_, err := s.Resolve(t.Context(), s.path("target/sub"))
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		requireHangs(t, func(ctx context.Context) error { _, err := s.IsMountPoint(ctx, s.path("target/sub")); return err })
		_, err = s.IsMountPoint(t.Context(), s.path("target/sub"))
		require.NoError(t, err, "the fault is used up")
	})
	s.ClearFaults() // no call waits any more
}

// TestFakeHangEnds: when the server answers again, the waiting calls continue.
func TestFakeHangEnds(t *testing.T) {
	s := newFakeTest(t)
	s.Inject(mounttest.Fault{FSType: "nfs4", Hang: true})
	synctest.Test(t, func(t *testing.T) {
		s := s
		s.t = t
		done := make(chan error)
		go func() { done <- s.mount("nfs4", "server:/a", "target") }()
		synctest.Wait()
		require.Len(t, s.table(), 1)
		s.ClearFaults()
		require.NoError(t, <-done)
	})
	require.Equal(t, "nfs4", s.entryAt("target").FSType)
}

// TestFakeHangAndUnmountPolicy: the unmount policy decides whether a busy hung mount is
// unmounted.
func TestFakeHangAndUnmountPolicy(t *testing.T) {
	for _, step := range []mount.UnmountStep{mount.UnmountPlain, mount.UnmountForce, mount.UnmountQuarantine} {
		s := newFakeTest(t)
		s.Fake = mounttest.NewFake(mount.Config{Unmount: mount.UnmountPolicy{Last: step}})
		require.NoError(t, s.mount("nfs4", "server:/a", "target"))
		require.NoError(t, s.mount("nfs4", "server:/a", "other"))
		s.Inject(mounttest.Fault{FSType: "nfs4", Hang: true})
		before := s.table()
		if step == mount.UnmountQuarantine {
			require.NoError(t, s.unmount("target"))
			require.NoError(t, s.UnmountTree(t.Context(), s.path("other")))
			require.Len(t, s.table(), 1)
			continue
		}
		for _, err := range []error{s.unmount("target"), s.UnmountTree(t.Context(), s.path("other"))} {
			require.ErrorIs(t, err, mount.ErrNotAnswering)
			require.ErrorIs(t, err, mount.ErrBusy)
			require.NotErrorIs(t, err, mount.ErrUncertain)
		}
		require.Equal(t, before, s.table())
		s.ClearFaults()
		require.NoError(t, s.unmount("target"))
	}
}

// TestFakeHangBlocksTarget: a Mount call that hangs delays only other changes of its target.
func TestFakeHangBlocksTarget(t *testing.T) {
	s := newFakeTest(t)
	s.Inject(mounttest.Fault{FSType: "nfs4", Hang: true})
	synctest.Test(t, func(t *testing.T) {
		s := s
		s.t = t
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- s.Mount(ctx, mount.Request{Source: "server:/a", Target: s.path("target"), FSType: "nfs4"})
		}()
		synctest.Wait()
		require.NoError(t, s.bind("source", "other"))
		requireHangs(t, func(ctx context.Context) error { return s.bindWithContext(ctx, "source", "target") })
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, s.bind("source", "target"))
	})
}
