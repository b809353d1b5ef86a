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

// holdElsewhere has another process hold an open file, and closes it here.
func holdElsewhere(t *testing.T, file *os.File) (leave func()) {
	t.Helper()
	c := exec.Command("cat") // until it may end
	c.ExtraFiles = []*os.File{file}
	end, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	require.NoError(t, file.Close())
	go func() { _ = c.Wait() }() // which closing the file may hold up
	leave = func() { _ = end.Close() }
	t.Cleanup(leave)
	return leave
}

// holdRoot has another process hold the root of a file system, which is not asked.
func holdRoot(t *testing.T, path string) (leave func()) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	return holdElsewhere(t, os.NewFile(uintptr(fd), path))
}

// TestNeverStuckBusy: unmounting what another process uses returns soon after its
// context ends, and leaves it mounted until the grace is over. What is taken down
// then is gone from the path, whoever still has it open.
func TestNeverStuckBusy(t *testing.T) {
	onEachSickness(t, func(t *testing.T, s sick) {
		leave := holdRoot(t, s.path)
		patient := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: time.Hour}})
		before := world(t)
		for range 3 {
			for _, unmount := range []func(context.Context, string) error{patient.Unmount, patient.UnmountTree} {
				err := soon(t, func(ctx context.Context) error { return unmount(ctx, s.path) })
				require.Error(t, err)
				certain(t, err, "unmount")
				require.True(t, errors.Is(err, mount.ErrBusy) || errors.Is(err, context.DeadlineExceeded), err)
				require.Equal(t, before, world(t))
			}
		}
		grace := 100 * time.Millisecond
		if s.isDisk {
			grace = time.Minute // it answers, some time
		}
		m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: grace}})
		err := unmountAfterGrace(t, m, s)
		require.Equal(t, s.isDisk, isMountPoint(t, s.path))
		if s.isDisk {
			require.ErrorIs(t, err, mount.ErrBusy)
		} else {
			require.NoError(t, err)
			require.NoError(t, os.Remove(s.path), "the directory is free")
			require.NoError(t, os.Mkdir(s.path, 0o755))
		}
		s.cure()
		leave()
		unmountSoon(t, m, s.path)
	})
}

// TestNeverStuckOpenFile: so it is with a file that was opened when its file system
// still answered.
func TestNeverStuckOpenFile(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	path := mkdirs(t, "hung") + "/hung"
	fs := mountFUSE(t, path, []byte("content"))
	file, err := os.Open(path + "/disk")
	require.NoError(t, err)
	holdElsewhere(t, file)
	fs.hang()
	patient := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: time.Hour}})
	for range 3 {
		err := soon(t, func(ctx context.Context) error { return patient.Unmount(ctx, path) })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		certain(t, err, "unmount")
		require.True(t, isMountPoint(t, path))
	}
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: 100 * time.Millisecond}})
	require.NoError(t, unmountAfterGrace(t, m, sick{path: path}))
	require.False(t, isMountPoint(t, path))
	fs.release() // or else it could not be closed
}

// TestNeverStuckOnTop: mounting a file system on one that is sick asks nothing of it.
func TestNeverStuckOnTop(t *testing.T) {
	onEachSickness(t, func(t *testing.T, s sick) {
		dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		if err != nil {
			mounttest.SkipWithout(t, "fuse", err)
		}
		t.Cleanup(func() { _ = dev.Close() })
		m := mount.New(mount.Config{})
		before := world(t)
		for _, req := range []mount.Request{
			{FSType: "tmpfs"},
			{FSType: "fuse.top", Options: []string{fmt.Sprintf("fd=%d", dev.Fd()), "rootmode=40000", "user_id=0", "group_id=0"}},
		} {
			req.Source, req.Target, req.Stack = "top", s.path, true
			err := soon(t, func(ctx context.Context) error { return m.Mount(ctx, req) })
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				within(t, func() { require.NoError(t, m.Mount(t.Context(), req)) })
			}
			require.Equal(t, req.FSType, tableAt(t, m, s.path).FSType)
			for tableAt(t, m, s.path).FSType == req.FSType {
				unmountSoon(t, m, s.path)
			}
			require.Equal(t, before, world(t))
		}
	})
}
