package loop_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"golang.org/x/sys/unix"
)

// attachPath attaches a device until the end of the test.
func attachPath(t *testing.T, path string, c loop.Config) loop.Device {
	t.Helper()
	if os.Geteuid() != 0 {
		mounttest.SkipWithout(t, "loop", "not root")
	}
	d, err := loop.AttachFileDevice(t.Context(), path, c)
	if err != nil {
		mounttest.SkipWithout(t, "loop", err)
	}
	t.Cleanup(func() { _ = loop.Detach(context.Background(), d) })
	testbed.DetachAtEnd(t, d.Path)
	return d
}

// attachedTo returns the devices with a backing path.
func attachedTo(t *testing.T, backing string) (devices []loop.Device) {
	t.Helper()
	all, err := loop.List(t.Context())
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(d loop.Device) bool { return d.Backing != backing || d.Ending })
}

// TestAttachFindDetach: a driver attaches, finds and detaches a file, each call repeated.
func TestAttachFindDetach(t *testing.T) {
	path := image(t).Name()
	_, err := loop.GetLoopDevice(t.Context(), path)
	require.ErrorIs(t, err, loop.ErrNotAttached)
	require.NoError(t, loop.DetachFileDevice(t.Context(), path))
	d := attachPath(t, path, loop.Config{Name: "a name"})
	require.Equal(t, path, d.Backing)
	require.NoError(t, os.Symlink(path, path+"-link"))
	require.NoError(t, os.Link(path, path+"-other"))
	for _, name := range []string{path, path + "-link", path + "-other", filepath.Dir(path) + "/./image"} {
		again, err := loop.AttachFileDevice(t.Context(), name, loop.Config{Name: "a name"})
		require.NoError(t, err, name)
		require.Equal(t, d, again, name)
		found, err := loop.GetLoopDevice(t.Context(), name)
		require.NoError(t, err, name)
		require.Equal(t, d, found, name)
	}
	reader := attachPath(t, path, loop.Config{ReadOnly: true})
	require.True(t, reader.ReadOnly)
	require.Len(t, attachedTo(t, path), 2)
	require.NoError(t, os.WriteFile(d.Path, []byte("text"), 0))
	for range 2 {
		require.NoError(t, loop.DetachFileDevice(t.Context(), path+"-link"))
		require.Empty(t, attachedTo(t, path))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), "text"))
	require.Equal(t, int64(4<<20), int64(len(text)))
}

// TestAttachFindDetachDevice: the backing file may be a block device, by any of its names.
func TestAttachFindDetachDevice(t *testing.T) {
	disk := attach(t, loop.Config{File: image(t)})
	link := t.TempDir() + "/by-id"
	require.NoError(t, os.Symlink(disk.Path, link))
	d := attachPath(t, link, loop.Config{ReadOnly: true})
	require.NotZero(t, d.BackingDevice)
	found, err := loop.GetLoopDevice(t.Context(), disk.Path)
	require.NoError(t, err)
	require.Equal(t, d, found)
	require.NoError(t, loop.DetachFileDevice(t.Context(), link))
	_, err = loop.GetLoopDevice(t.Context(), disk.Path)
	require.ErrorIs(t, err, loop.ErrNotAttached)
}

// TestListed: devices of List have names, and can be detached; Named finds devices of files.
func TestListed(t *testing.T) {
	f := image(t)
	name := fmt.Sprint("volumekit test ", os.Getpid())
	attach(t, loop.Config{File: f, Name: name})
	for _, d := range attachedTo(t, f.Name()) {
		require.Equal(t, name, d.Name)
	}
	named, err := loop.Named(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, attachedTo(t, f.Name()), named)
	require.Len(t, named, 1)
	require.NoError(t, loop.Detach(t.Context(), named[0]))
	require.Empty(t, attachedTo(t, f.Name()))
}

// TestRemoved: the device of a removed file keeps its path, without the kernel's suffix, and
// is detached by it. A new file of the same name is another file.
func TestRemoved(t *testing.T) {
	path := image(t).Name()
	attachPath(t, path, loop.Config{})
	require.NoError(t, os.Remove(path))
	removed := attachedTo(t, path)
	require.Len(t, removed, 1)
	require.True(t, removed[0].Deleted)
	found, err := loop.GetLoopDevice(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, removed[0], found)
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	_, err = loop.GetLoopDevice(t.Context(), path)
	require.ErrorIs(t, err, loop.ErrNotAttached)
	require.NoError(t, os.Remove(path))
	for range 2 {
		require.NoError(t, loop.DetachFileDevice(t.Context(), path))
		require.Empty(t, attachedTo(t, path))
	}

	odd := path + " (deleted)" // the name of an existing file
	require.NoError(t, os.WriteFile(odd, make([]byte, 1<<20), 0o600))
	d := attachPath(t, odd, loop.Config{})
	require.Equal(t, odd, d.Backing)
	require.False(t, d.Deleted)
}

// TestConcurrentAttach: concurrent calls for one file attach one device.
func TestConcurrentAttach(t *testing.T) {
	path := image(t).Name()
	want := attachPath(t, path, loop.Config{})
	for range 4 {
		require.NoError(t, loop.DetachFileDevice(t.Context(), path))
		var all sync.WaitGroup
		devices := make([]loop.Device, 8)
		for i := range devices {
			all.Go(func() {
				d, err := loop.AttachFileDevice(t.Context(), path, loop.Config{})
				if err != nil {
					t.Error(err)
				}
				devices[i] = d
			})
		}
		all.Wait()
		require.Len(t, attachedTo(t, path), 1)
		for _, d := range devices {
			require.Equal(t, devices[0], d)
		}
		require.NotEqual(t, want, devices[0])
	}
	require.NoError(t, loop.DetachFileDevice(t.Context(), path))
}

// TestAttachEnds: AttachFileDevice waits for a file that another process has locked until
// the context ends, and attaches nothing later.
func TestAttachEnds(t *testing.T) {
	f := image(t)
	attachPath(t, f.Name(), loop.Config{})
	require.NoError(t, loop.DetachFileDevice(t.Context(), f.Name()))
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := loop.AttachFileDevice(ctx, f.Name(), loop.Config{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
	d, err := loop.AttachFileDevice(t.Context(), f.Name(), loop.Config{})
	require.NoError(t, err)
	require.Equal(t, []loop.Device{d}, attachedTo(t, f.Name()))
	require.NoError(t, loop.DetachFileDevice(t.Context(), f.Name()))
}

// TestBadPath: invalid paths are refused before anything is attached, with short errors.
func TestBadPath(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(dir+"/pipe", 0o600))
	for _, path := range []string{dir, dir + "/pipe", dir + "/none", "/dev/null", "", strings.Repeat("/long", 1<<18)} {
		_, err := loop.AttachFileDevice(t.Context(), path, loop.Config{})
		require.Error(t, err, "%.100q", path)
		require.Less(t, len(err.Error()), 1000)
	}
	_, err := loop.AttachFileDevice(t.Context(), dir+"/none", loop.Config{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = loop.AttachFileDevice(t.Context(), dir, loop.Config{File: os.Stdin})
	require.ErrorContains(t, err, "Config.File")
	_, err = loop.AttachFileDevice(t.Context(), dir, loop.Config{Name: strings.Repeat("x", 1<<20)})
	require.Less(t, len(err.Error()), 1000)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"attach": func() error { _, err := loop.AttachFileDevice(ended, dir, loop.Config{}); return err },
		"get":    func() error { _, err := loop.GetLoopDevice(ended, dir); return err },
		"detach": func() error { return loop.DetachFileDevice(ended, dir) },
		"list":   func() error { _, err := loop.List(ended); return err },
		"named":  func() error { _, err := loop.Named(ended, "x"); return err },
		"status": func() error { _, err := loop.Status(ended, "/dev/loop0"); return err },
		"resize": func() error { return loop.Resize(ended, loop.Device{Path: "/dev/loop0"}) },
		"file":   func() error { _, err := loop.Attach(ended, loop.Config{File: os.Stdin}); return err },
	} {
		require.ErrorIs(t, call(), context.Canceled, name)
	}
}
