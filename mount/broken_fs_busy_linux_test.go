package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// holdInChild passes an open file to a child process, and closes it in this process. The child
// keeps it open until leave is called.
func holdInChild(t *testing.T, file *os.File) (leave func()) {
	t.Helper()
	c := exec.Command("cat") // runs until its standard input is closed
	c.ExtraFiles = []*os.File{file}
	end, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	require.NoError(t, file.Close())
	go func() { _ = c.Wait() }() // may hang: the exit closes the file
	leave = func() { _ = end.Close() }
	t.Cleanup(leave)
	return leave
}

// holdRootInChild keeps the root of a file system open in a child process. It sends no request
// to the file system.
func holdRootInChild(t *testing.T, path string) (leave func()) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	return holdInChild(t, os.NewFile(uintptr(fd), path))
}

// TestBusyUnmountEndsWithContext: the unmount of a mount that another process uses returns soon
// after its context ends, and the mount stays until the grace period is over. Afterwards the
// mount is gone from the path, even if a process still has it open.
func TestBusyUnmountEndsWithContext(t *testing.T) {
	onEachBrokenFS(t, func(t *testing.T, s brokenFS) {
		leave := holdRootInChild(t, s.path)
		patient := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: time.Hour}})
		before := listMounts(t)
		for range 3 {
			for _, unmount := range []func(context.Context, string) error{patient.Unmount, patient.UnmountTree} {
				err := callBriefly(t, func(ctx context.Context) error { return unmount(ctx, s.path) })
				require.Error(t, err)
				requireCertain(t, err, "unmount")
				require.True(t, errors.Is(err, mount.ErrBusy) || errors.Is(err, context.DeadlineExceeded), err)
				require.Equal(t, before, listMounts(t))
			}
		}
		grace := 100 * time.Millisecond
		if s.isDisk {
			grace = time.Minute // the answer may be late
		}
		m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: grace}})
		err := unmountAfterGrace(t, m, s)
		require.Equal(t, s.isDisk, isMountPoint(t, s.path))
		if s.isDisk {
			require.ErrorIs(t, err, mount.ErrBusy)
		} else {
			require.NoError(t, err)
			require.NoError(t, os.Remove(s.path), "the directory is no mount point")
			require.NoError(t, os.Mkdir(s.path, 0o755))
		}
		s.repair()
		leave()
		unmountEventually(t, m, s.path)
	})
}

// TestUnmountWithOpenFileEndsWithContext: the same holds for a mount that is busy because of a
// file that was opened before the server hung.
func TestUnmountWithOpenFileEndsWithContext(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	path := mkdirs(t, "hung") + "/hung"
	fs := mountFUSE(t, path, []byte("content"))
	file, err := os.Open(path + "/disk")
	require.NoError(t, err)
	holdInChild(t, file)
	fs.hang()
	patient := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: time.Hour}})
	for range 3 {
		err := callBriefly(t, func(ctx context.Context) error { return patient.Unmount(ctx, path) })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		requireCertain(t, err, "unmount")
		require.True(t, isMountPoint(t, path))
	}
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: 100 * time.Millisecond}})
	require.NoError(t, unmountAfterGrace(t, m, brokenFS{path: path}))
	require.False(t, isMountPoint(t, path))
	fs.release() // the child cannot close the file otherwise
}

// topOf returns the request for a mount on top of another one. Each mount of FUSE has a connection of its
// own: after the end of its first mount a connection accepts no other (ENOTCONN).
func topOf(t *testing.T, target, fsType string) mount.Request {
	t.Helper()
	req := mount.Request{Source: "top", Target: target, FSType: fsType, Stack: true}
	if fsType != "tmpfs" {
		dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		if err != nil {
			mounttest.SkipWithout(t, "fuse", err)
		}
		t.Cleanup(func() { _ = dev.Close() })
		req.Options = []string{fmt.Sprintf("fd=%d", dev.Fd()), "rootmode=40000", "user_id=0", "group_id=0"}
	}
	return req
}

// TestMountOnBrokenFSEndsWithContext: a mount on top of a broken file system sends no request
// to it.
func TestMountOnBrokenFSEndsWithContext(t *testing.T) {
	onEachBrokenFS(t, func(t *testing.T, s brokenFS) {
		m := mount.New(mount.Config{})
		before := listMounts(t)
		for _, fsType := range []string{"tmpfs", "fuse.top"} {
			err := callBriefly(t, func(ctx context.Context) error { return m.Mount(ctx, topOf(t, s.path, fsType)) })
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				requireReturns(t, func() { require.NoError(t, m.Mount(t.Context(), topOf(t, s.path, fsType))) })
			}
			require.Equal(t, fsType, entryAt(t, m, s.path).FSType)
			for entryAt(t, m, s.path).FSType == fsType {
				unmountEventually(t, m, s.path)
			}
			require.Equal(t, before, listMounts(t))
		}
	})
}
