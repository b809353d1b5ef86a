package loop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"golang.org/x/sys/unix"
)

// attach attaches a device until the end of the test.
func attach(t *testing.T, c loop.Config) loop.Device {
	t.Helper()
	if os.Geteuid() != 0 {
		mounttest.SkipWithout(t, "loop", "not root")
	}
	d, err := loop.Attach(context.Background(), c)
	if err != nil {
		mounttest.SkipWithout(t, "loop", err)
	}
	t.Cleanup(func() {
		err := loop.Detach(context.Background(), d)
		if !errors.Is(err, loop.ErrReplaced) { // the test has detached it, and another one uses its path
			require.NoError(t, err)
		}
	})
	testbed.DetachAtEnd(t, d.Path)
	return d
}

func image(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	require.NoError(t, f.Truncate(4<<20))
	return f
}

func size(t *testing.T, device string) int64 {
	t.Helper()
	f, err := os.Open(device)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	n, err := f.Seek(0, 2)
	require.NoError(t, err)
	return n
}

// TestFile: a file is attached, listed, resized and detached.
func TestFile(t *testing.T) {
	f := image(t)
	d := attach(t, loop.Config{File: f, Name: "a name"})
	require.Equal(t, "a name", d.Name)
	require.Equal(t, f.Name(), d.Backing)
	require.Zero(t, d.BackingDevice)
	require.False(t, d.ReadOnly)
	require.Equal(t, int64(4<<20), size(t, d.Path))
	require.NoError(t, f.Truncate(8<<20))
	require.NoError(t, loop.Resize(context.Background(), d))
	require.Equal(t, int64(8<<20), size(t, d.Path))
	require.NoError(t, os.WriteFile(d.Path, []byte("text"), 0))
	all, err := loop.List(context.Background())
	require.NoError(t, err)
	require.Contains(t, all, d)
}

// TestDisk: a loop device on a block device holds it open, and is found by its name.
func TestDisk(t *testing.T) {
	disk := attach(t, loop.Config{File: image(t)})
	f, err := os.Open(disk.Path)
	require.NoError(t, err)
	name := fmt.Sprint("volumekit test ", os.Getpid())
	held := attach(t, loop.Config{File: f, Name: name, ReadOnly: true})
	var stat unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &stat))
	require.NoError(t, f.Close())
	require.Equal(t, stat.Rdev, held.BackingDevice)
	require.True(t, held.ReadOnly)
	require.ErrorIs(t, os.WriteFile(held.Path, []byte("text"), 0), os.ErrPermission)

	found, err := loop.Named(context.Background(), name)
	require.NoError(t, err)
	require.Equal(t, []loop.Device{held}, found)
	for _, other := range []loop.Device{{Path: held.Path, Name: "another's"}, {Path: held.Path}, {Path: held.Path, Name: name, Seq: 1}} {
		require.ErrorIs(t, loop.Detach(context.Background(), other), loop.ErrReplaced)
	}
	found, err = loop.Named(context.Background(), name)
	require.NoError(t, err)
	require.Len(t, found, 1, "it is not detached under another name")
	for range 2 {
		require.NoError(t, loop.Detach(context.Background(), held))
	}
	require.Eventually(t, func() bool { // other programs may open the device for an instant
		found, err = loop.Named(context.Background(), name)
		return err == nil && len(found) == 0
	}, time.Minute, 10*time.Millisecond)
}

// TestListWithoutDescriptors: if no descriptors are left List fails, and does not omit
// devices.
func TestListWithoutDescriptors(t *testing.T) {
	if !mounttest.Namespace(t) { // a process of its own
		return
	}
	restore := testbed.LeaveDescriptors(t, 0)
	_, listed := loop.List(context.Background())
	_, named := loop.Named(context.Background(), "a name")
	restore()
	require.ErrorIs(t, listed, unix.EMFILE)
	require.ErrorIs(t, named, unix.EMFILE)
}

// TestKilledTest: a test that is killed in its namespace leaves no device, and none on the device.
func TestKilledTest(t *testing.T) {
	const variable = "VOLUMEKIT_TEST_KILLED"
	if name := os.Getenv(variable); name != "" {
		if mounttest.RootNamespace(t) {
			f, err := os.Open(attach(t, loop.Config{File: image(t), Name: name}).Path)
			require.NoError(t, err)
			_, err = loop.Attach(t.Context(), loop.Config{File: f, Name: name, ReadOnly: true})
			require.NoError(t, err)
			fmt.Println("attached")
			require.NoError(t, unix.Kill(os.Getpid(), unix.SIGKILL))
			select {}
		}
	}
	attach(t, loop.Config{File: image(t)}) // or the test is skipped
	name := fmt.Sprint("volumekit test ", os.Getpid())
	killed := exec.Command("/proc/self/exe", "-test.run=^TestKilledTest$", "-test.short")
	killed.Env = append(os.Environ(), variable+"="+name)
	output, err := killed.CombinedOutput()
	require.Error(t, err)
	require.Regexp(t, `killed\n(.*\n)*.*attached`, string(output))
	require.Eventually(t, func() bool {
		left, err := loop.Named(t.Context(), name)
		return err == nil && len(left) == 0
	}, time.Minute, 10*time.Millisecond)
}

// TestDetachedWhileOpen: a device that was detached while it is open is not found any more.
func TestDetachedWhileOpen(t *testing.T) {
	disk := attach(t, loop.Config{File: image(t)})
	f, err := os.Open(disk.Path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	name := fmt.Sprint("volumekit test ", os.Getpid())
	held := attach(t, loop.Config{File: f, Name: name, ReadOnly: true})
	require.False(t, held.Ending)
	user, err := os.Open(held.Path)
	require.NoError(t, err)
	defer func() { _ = user.Close() }()
	require.NoError(t, loop.Detach(context.Background(), held))
	is, err := loop.Status(context.Background(), held.Path)
	require.NoError(t, err)
	require.True(t, is.Ending)
	found, err := loop.Named(context.Background(), name)
	require.NoError(t, err)
	require.Empty(t, found)
}

// TestFailedAttachIsReverted: an attached device whose status is not readable is detached.
func TestFailedAttachIsReverted(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	f := image(t)
	attach(t, loop.Config{File: f})
	require.NoError(t, unix.Mount("none", "/sys", "tmpfs", 0, ""))
	_, err := loop.Attach(context.Background(), loop.Config{File: f})
	require.NoError(t, unix.Unmount("/sys", unix.MNT_DETACH))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Eventually(t, func() bool {
		all, err := loop.List(context.Background())
		require.NoError(t, err)
		n := 0
		for _, d := range all {
			if d.Backing == f.Name() {
				n++
			}
		}
		return n == 1
	}, time.Minute, 10*time.Millisecond)
}

func TestBadInput(t *testing.T) {
	_, err := loop.Attach(context.Background(), loop.Config{})
	require.Error(t, err)
	for _, name := range []string{strings.Repeat("n", 64), "a\x00b"} {
		_, err = loop.Attach(context.Background(), loop.Config{File: os.Stdin, Name: name})
		require.Error(t, err)
		_, err = loop.Named(context.Background(), name)
		require.Error(t, err)
	}
	require.NoError(t, loop.Detach(context.Background(), loop.Device{Path: "/dev/no such device"}))
	_, err = loop.Status(context.Background(), "/dev/no such device")
	require.ErrorIs(t, err, os.ErrNotExist)
}
