package mountcheck

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/mountstate"
	"github.com/volumekit/volumekit/manager/internal/retry"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// newMounts returns a kernel with bind mounts of one directory at the paths in a new directory.
// The mounted directory has a subdirectory "below".
func newMounts(t *testing.T, names ...string) (kernel *mounttest.Fake, dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	kernel = mounttest.NewFake(mount.Config{})
	require.NoError(t, os.MkdirAll(dir+"/source/below", 0o755))
	for _, name := range names {
		target := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(target, 0o755))
		require.NoError(t, kernel.Mount(t.Context(), mount.Request{Source: dir + "/source", Target: target}))
	}
	return kernel, dir
}

// mountOver mounts another file system over a path.
func mountOver(t *testing.T, kernel *mounttest.Fake, path string) {
	t.Helper()
	require.NoError(t, kernel.Mount(t.Context(), mount.Request{Source: "foreign", FSType: "tmpfs", Target: path, Stack: true}))
}

// TestExpectedMounts: a mount is in order, gone, replaced by another one, or unchecked after an
// error. Without a known ID any mount at the path is in order.
func TestExpectedMounts(t *testing.T) {
	kernel, dir := newMounts(t, "kept", "gone", "replaced", "unknown", "failed")
	expected := func(name string) actual.ExpectedMount {
		id, err := kernel.MountID(t.Context(), filepath.Join(dir, name))
		require.NoError(t, err)
		return actual.ExpectedMount{Path: filepath.Join(dir, name), ID: id}
	}
	kept, gone, replaced, unknown, failed := expected("kept"), expected("gone"), expected("replaced"), expected("unknown"), expected("failed")
	unknown.ID = 0
	require.NoError(t, kernel.Unmount(t.Context(), gone.Path))
	mountOver(t, kernel, replaced.Path)
	mountOver(t, kernel, unknown.Path)
	kernel.Inject(mounttest.Fault{Op: mounttest.OpIsMountPoint, Path: failed.Path, Err: syscall.EIO})

	all := []actual.ExpectedMount{kept, gone, replaced, unknown, failed}
	check := Run(t.Context(), kernel, all, nil)
	require.Equal(t, []actual.ExpectedMount{gone}, check.Gone)
	require.Equal(t, []actual.ExpectedMount{replaced}, check.Replaced)
	require.Equal(t, []actual.ExpectedMount{failed}, check.Unchecked)
	require.Equal(t, all, check.Checked)
	require.Empty(t, check.Changed)
}

// TestFailedOperations: a failed operation has changed if the mount at its path differs from that
// at its failure; if it unmounts, also if the mounts below the path differ. An error is no change.
func TestFailedOperations(t *testing.T) {
	unmount := func(t *testing.T, kernel *mounttest.Fake, path string) {
		require.NoError(t, kernel.Unmount(t.Context(), path))
	}
	for name, test := range map[string]struct {
		below   bool // the state at the failure has the mounts below the path
		change  func(t *testing.T, kernel *mounttest.Fake, path string)
		changed bool
	}{
		"unchanged": {true, func(*testing.T, *mounttest.Fake, string) {}, false},
		"unmounted": {false, func(t *testing.T, kernel *mounttest.Fake, path string) {
			require.NoError(t, kernel.UnmountTree(t.Context(), path))
		}, true},
		"replaced":        {false, mountOver, true},
		"unmounted below": {true, func(t *testing.T, kernel *mounttest.Fake, path string) { unmount(t, kernel, path+"/below") }, true},
		"mounted below":   {true, func(t *testing.T, kernel *mounttest.Fake, path string) { mountOver(t, kernel, path+"/below") }, true},
		"irrelevant":      {false, func(t *testing.T, kernel *mounttest.Fake, path string) { unmount(t, kernel, path+"/below") }, false},
		"unknown": {false, func(t *testing.T, kernel *mounttest.Fake, path string) {
			require.NoError(t, kernel.UnmountTree(t.Context(), path))
			kernel.Inject(mounttest.Fault{Op: mounttest.OpIsMountPoint, Path: path, Err: syscall.EIO})
		}, false},
		"no mount table": {true, func(t *testing.T, kernel *mounttest.Fake, path string) {
			unmount(t, kernel, path+"/below")
			kernel.Inject(mounttest.Fault{Op: mounttest.OpList, Err: syscall.EIO})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			kernel, dir := newMounts(t, "a")
			path := filepath.Join(dir, "a")
			mountOver(t, kernel, path+"/below")
			where, err := mountstate.At(t.Context(), kernel, path)
			require.NoError(t, err)
			if test.below {
				table, err := kernel.List(t.Context())
				require.NoError(t, err)
				where.Below = mountstate.Below(table, path)
			}
			test.change(t, kernel, path)
			failed := []retry.FailedOperation{{FailedAttempt: retry.FailedAttempt{Where: where}}}
			check := Run(t.Context(), kernel, nil, failed)
			require.Equal(t, test.changed, len(check.Changed) == 1)
		})
	}
}

// TestPathDeadlines: calls in quick succession share a context, and each has at least half of
// PathTimeout.
func TestPathDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, stop := pathDeadlines(t.Context())
		first := next()
		require.Same(t, first, next())
		time.Sleep(PathTimeout/2 + 1)
		second := next()
		require.NotSame(t, first, second)
		deadline, ok := second.Deadline()
		require.True(t, ok)
		require.Equal(t, PathTimeout, time.Until(deadline))
		stop()
		require.ErrorIs(t, second.Err(), context.Canceled)
	})
}
