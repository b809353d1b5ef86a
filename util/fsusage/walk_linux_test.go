package fsusage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// createTree makes files and directories of all kinds, and returns the number of inodes.
func createTree(t *testing.T, dir string, width int) int64 {
	t.Helper()
	for i := range width {
		sub := fmt.Sprintf("%s/%d/sub", dir, i)
		require.NoError(t, os.MkdirAll(sub, 0o755))
		require.NoError(t, os.WriteFile(sub+"/file", make([]byte, 5000*i), 0o644))
		require.NoError(t, os.Link(sub+"/file", fmt.Sprintf("%s/%d/other", dir, i)))
		require.NoError(t, os.Symlink("/", sub+"/link"))
		require.NoError(t, os.WriteFile(sub+"/sparse", nil, 0o644))
		require.NoError(t, os.Truncate(sub+"/sparse", 1<<30))
	}
	return 1 + int64(width)*5
}

// du runs du(1), if it is installed.
func du(t *testing.T, dir string) (bytes, inodes int64, ok bool) {
	t.Helper()
	if _, err := exec.LookPath("du"); err != nil {
		return 0, 0, false
	}
	for _, ask := range []struct {
		option string
		answer *int64
	}{{"--block-size=1", &bytes}, {"--inodes", &inodes}} {
		out, err := exec.Command("du", "-s", "-x", ask.option, dir).Output()
		require.NoError(t, err)
		_, err = fmt.Sscan(string(out), ask.answer)
		require.NoError(t, err)
	}
	return bytes, inodes, true
}

// TestWalk is on a tmpfs: on other file systems the allocation changes later.
func TestWalk(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	defer func() { require.NoError(t, unix.Unmount(dir, 0)) }()
	want := createTree(t, dir, 20)
	got, err := Walk(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, want, got.Inodes)
	if bytes, inodes, ok := du(t, dir); ok {
		require.Equal(t, bytes, got.Bytes)
		require.Equal(t, inodes, got.Inodes)
	}
	require.Zero(t, got.Unread)
	require.WithinDuration(t, time.Now(), got.Time, time.Hour)

	file, err := Walk(t.Context(), dir+"/3/sub/file")
	require.NoError(t, err)
	require.EqualValues(t, 1, file.Inodes)
	require.GreaterOrEqual(t, file.Bytes, int64(15000))
	link, err := Walk(t.Context(), dir+"/3/sub/link")
	require.NoError(t, err)
	require.EqualValues(t, 1, link.Inodes, "it is not followed")
	_, err = Walk(t.Context(), dir+"/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestWalkStaysInside its file system, and its mount.
func TestWalkStaysInside(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := t.TempDir()
	for _, sub := range []string{"/in/mounted", "/in/bound", "/outside/a/b"} {
		require.NoError(t, os.MkdirAll(dir+sub, 0o755))
	}
	require.NoError(t, os.WriteFile(dir+"/in/file", nil, 0o600))
	before, err := Walk(t.Context(), dir+"/in")
	require.NoError(t, err)
	require.EqualValues(t, 4, before.Inodes)
	require.NoError(t, unix.Mount("tmpfs", dir+"/in/mounted", "tmpfs", 0, ""))
	createTree(t, dir+"/in/mounted", 3)
	require.NoError(t, unix.Mount(dir+"/outside", dir+"/in/bound", "", unix.MS_BIND, ""))
	require.NoError(t, unix.Mount(dir+"/outside", dir+"/outside", "", unix.MS_BIND, ""))
	defer func() {
		for _, name := range []string{"/in/mounted", "/in/bound", "/outside"} {
			require.NoError(t, unix.Unmount(dir+name, 0))
		}
	}()
	got, err := Walk(t.Context(), dir+"/in")
	require.NoError(t, err)
	require.EqualValues(t, 2, got.Inodes, "the directory and the file")
	got, err = Walk(t.Context(), dir+"/in/mounted")
	require.NoError(t, err)
	require.EqualValues(t, 16, got.Inodes)
	got, err = Walk(t.Context(), dir+"/outside")
	require.NoError(t, err)
	require.EqualValues(t, 3, got.Inodes, "a mount is no obstacle where it is the top")
}

// TestWalkSubvolumes: a subvolume of btrfs is a part of the directory, one that is mounted is not.
func TestWalkSubvolumes(t *testing.T) {
	testbed.Disk{FSType: "btrfs", Size: 256 << 20, Options: []string{"-q"}}.Run(t, func(t *testing.T, dir string) {
		require.NoError(t, os.Mkdir(dir+"/in", 0o755))
		before, err := Walk(t.Context(), dir+"/in")
		require.NoError(t, err)
		testbed.Subvolume(t, dir+"/in", "sub")
		require.NoError(t, os.MkdirAll(dir+"/in/sub/a", 0o755))
		require.NoError(t, os.WriteFile(dir+"/in/sub/a/file", make([]byte, 1<<20), 0o600))
		testbed.Snapshot(t, dir+"/in/sub", dir+"/in/sub/a", "snapshot") // with two directories
		require.NoError(t, os.Mkdir(dir+"/in/mounted", 0o755))
		require.NoError(t, unix.Mount(dir+"/in/sub", dir+"/in/mounted", "", unix.MS_BIND, ""))
		defer func() { require.NoError(t, unix.Unmount(dir+"/in/mounted", 0)) }()
		require.NoError(t, syncFileSystem(dir))
		got, err := Walk(t.Context(), dir+"/in")
		require.NoError(t, err)
		require.EqualValues(t, before.Inodes+6, got.Inodes)
		require.GreaterOrEqual(t, got.Bytes, before.Bytes+2<<20)
	})
}

// syncFileSystem makes a file system allocate what was written: until then it has no blocks.
func syncFileSystem(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Syncfs(fd)
}

// TestWalkOverlay checks that files in a lower layer count, and that two files of two file
// systems with the same inode number count twice.
func TestWalkOverlay(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"/a", "/b"} { // their first files have the same number
		require.NoError(t, os.Mkdir(dir+name, 0o755))
		require.NoError(t, unix.Mount("tmpfs", dir+name, "tmpfs", 0, ""))
		defer func() { require.NoError(t, unix.Unmount(dir+name, 0)) }()
		require.NoError(t, os.WriteFile(dir+name+name, make([]byte, 1<<16), 0o644))
		require.NoError(t, os.Link(dir+name+name, dir+name+name+"-other"))
	}
	require.NoError(t, os.Mkdir(dir+"/top", 0o755))
	if err := unix.Mount("overlay", dir+"/top", "overlay", 0, "lowerdir="+dir+"/a:"+dir+"/b,xino=off"); err != nil {
		mounttest.SkipWithout(t, "overlay", err.Error())
	}
	defer func() { require.NoError(t, unix.Unmount(dir+"/top", 0)) }()
	got, err := Walk(t.Context(), dir+"/top")
	require.NoError(t, err)
	require.EqualValues(t, 3, got.Inodes, "the directory and two files")
	require.EqualValues(t, 2<<16, got.Bytes)
}

// TestWalkResumes checks that a walk which is stopped repeatedly ends with the same result,
// and holds nothing open in between.
func TestWalkResumes(t *testing.T) {
	dir := t.TempDir()
	createTree(t, dir, 30)
	deep := dir + "/7/" + strings.Repeat("d/", 3*window)
	require.NoError(t, os.MkdirAll(deep, 0o755))
	require.NoError(t, os.WriteFile(deep+"file", []byte("x"), 0o600))
	want, err := Walk(t.Context(), dir)
	require.NoError(t, err)

	before := testbed.Descriptors(t)
	var k walk
	for _, each := range []int{2, 20, 50} {
		stops := 0
		for {
			n := 0
			got, err := k.count(dir, 0, func() bool { n++; return n > each })
			require.LessOrEqual(t, testbed.Descriptors(t), before)
			if err == nil {
				require.Equal(t, want.Inodes, got.Inodes)
				require.Zero(t, got.Unread)
				break
			}
			require.ErrorIs(t, err, errPaused)
			stops++
		}
		require.Positive(t, stops)
	}
}

// TestWalkDeep: descriptors do not grow with the depth, nor is a path ever too long.
func TestWalkDeep(t *testing.T) {
	const depth = 1000
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, "directory", 0o755))
		next, err := unix.Openat(fd, "directory", unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = next
	}
	require.NoError(t, unix.Close(fd))
	before, most, n := testbed.Descriptors(t), 0, 0
	var k walk
	got, err := k.count(dir, 0, func() bool {
		if n++; n%100 == 0 {
			most = max(most, testbed.Descriptors(t))
		}
		return false
	})
	require.NoError(t, err)
	require.EqualValues(t, depth+1, got.Inodes)
	require.Less(t, most, before+window+20)
}

// TestWalkMoved checks that renaming a directory on the path of a walk, while the walk
// pauses or works in it, does not lead the walk elsewhere.
func TestWalkMoved(t *testing.T) {
	for _, rests := range []bool{false, true} {
		dir := t.TempDir()
		deep := dir + "/in/" + strings.Repeat("d/", 2*window)
		// Wherever a file system has new names, there are others before it and after.
		const beside = 100
		for i := range beside {
			require.NoError(t, os.MkdirAll(dir+"/in/d", 0o755))
			require.NoError(t, os.WriteFile(fmt.Sprintf("%s/in/d/%d", dir, i), nil, 0o600))
			if i == beside/2 {
				require.NoError(t, os.MkdirAll(deep, 0o755))
			}
		}
		require.NoError(t, os.Mkdir(dir+"/outside", 0o755))
		for i := range 500 {
			require.NoError(t, os.WriteFile(fmt.Sprintf("%s/outside/%d", dir, i), nil, 0o600))
		}
		moved := false
		var k walk
		stop := func() bool {
			if !moved && len(k.progress.stack) > window+window/2 {
				require.NoError(t, os.Rename(dir+"/in/d/d", dir+"/outside/moved"))
				moved = true
				return rests
			}
			return false
		}
		got, err := k.count(dir+"/in", 0, stop)
		if rests {
			require.ErrorIs(t, err, errPaused)
			got, err = k.count(dir+"/in", 0, stop)
		}
		require.NoError(t, err)
		require.True(t, moved)
		require.LessOrEqual(t, got.Inodes, int64(2*window+1+beside))
		got, err = k.count(dir+"/in", 0, stop)
		require.NoError(t, err)
		require.EqualValues(t, 2+beside, got.Inodes)
	}
}

// TestWalkUnread: an unreadable directory is counted as such, and does not end the walk.
func TestWalkUnread(t *testing.T) {
	if os.Geteuid() == 0 {
		if !mounttest.RootNamespace(t) {
			return
		}
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.MkdirAll(dir+"/closed/x", 0o755))
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o644))
	require.NoError(t, os.MkdirAll(dir+"/listed/dir", 0o755))
	require.NoError(t, os.WriteFile(dir+"/listed/file", nil, 0o644))
	for name, mode := range map[string]os.FileMode{"/closed": 0, "/listed": 0o444} {
		require.NoError(t, os.Chmod(dir+name, mode))
		defer func() { _ = os.Chmod(dir+name, 0o700) }()
	}
	if os.Geteuid() == 0 {
		require.NoError(t, unix.Setresuid(-1, 1000, -1)) // of all threads
		defer func() { require.NoError(t, unix.Setresuid(-1, 0, -1)) }()
	}
	got, err := Walk(t.Context(), dir)
	require.NoError(t, err)
	require.EqualValues(t, 4, got.Inodes)
	require.EqualValues(t, 3, got.Unread, "what is closed, and two of what is listed")
}

// TestWalkWithoutDescriptors checks that a shortage of descriptors is an error, not a
// result, also for a walk that was paused.
func TestWalkWithoutDescriptors(t *testing.T) {
	if !mounttest.Namespace(t) { // a process of its own
		return
	}
	dir := t.TempDir()
	const depth = 2 * window
	require.NoError(t, os.MkdirAll(dir+strings.Repeat("/d", depth), 0o755))
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	for _, paused := range []bool{false, true} {
		for _, free := range []int{0, 1, 2, 3, window / 2} {
			var k walk
			if paused {
				_, err := k.count(dir, 0, func() bool { return len(k.progress.stack) > depth-3 })
				require.ErrorIs(t, err, errPaused)
			}
			restore := testbed.LeaveDescriptors(t, free)
			_, err := k.count(dir, 0, func() bool { return false })
			restore()
			require.ErrorIs(t, err, unix.EMFILE, "paused: %t, descriptors: %d", paused, free)
			got, err := k.count(dir, 0, func() bool { return false })
			require.NoError(t, err)
			require.EqualValues(t, depth+2, got.Inodes)
			require.Zero(t, got.Unread)
		}
	}
}

// TestWalkVanished: a file that is removed after its name was read is no error.
func TestWalkVanished(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		require.NoError(t, os.Mkdir(fmt.Sprint(dir, "/", i), 0o755))
	}
	steps := 0
	var k walk
	got, err := k.count(dir, 0, func() bool {
		if steps++; steps == 2 { // the names have been read
			for i := range 10 {
				require.NoError(t, os.Remove(fmt.Sprint(dir, "/", i)))
			}
		}
		return false
	})
	require.NoError(t, err)
	require.Less(t, got.Inodes, int64(11))
	require.Zero(t, got.Unread)
}

// TestWalkerRemembers, but never another directory of the name.
func TestWalkerRemembers(t *testing.T) {
	dir := t.TempDir() + "/dir"
	require.NoError(t, os.Mkdir(dir, 0o755))
	w := Walker{MaxAge: time.Hour}
	first, err := w.Walk(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o644))
	again, err := w.Walk(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, first, again)

	require.NoError(t, os.Rename(dir, dir+"-old"))
	require.NoError(t, os.MkdirAll(dir+"/a/b", 0o755))
	other, err := w.Walk(t.Context(), dir)
	require.NoError(t, err)
	require.EqualValues(t, 3, other.Inodes)

	var forgetful Walker
	for want := int64(3); want < 6; want++ {
		got, err := forgetful.Walk(t.Context(), dir)
		require.NoError(t, err)
		require.Equal(t, want, got.Inodes)
		require.NoError(t, os.WriteFile(fmt.Sprint(dir, "/", want), nil, 0o644))
	}
}

// TestWalkerForManyCallers checks that all callers get the result, although each has little
// time.
func TestWalkerForManyCallers(t *testing.T) {
	dir := t.TempDir()
	want := createTree(t, dir, 100)
	var w Walker
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for given := time.Microsecond; ; given *= 2 {
				ctx, cancel := context.WithTimeoutCause(t.Context(), given, errors.New("enough"))
				got, err := w.Walk(ctx, dir)
				cancel()
				if err == nil {
					if got.Inodes != want {
						t.Errorf("%d inodes, want %d", got.Inodes, want)
					}
					return
				}
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "enough") {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Walk(ctx, dir)
	require.ErrorIs(t, err, context.Canceled)
}

func TestBlockSize(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	image := t.TempDir() + "/image"
	testbed.Image(t, image, 3<<20)
	size, err := BlockSize(t.Context(), testbed.Loop(t, image))
	require.NoError(t, err)
	require.EqualValues(t, 3<<20, size)
}

func TestBlockSizeOfNoDevice(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, "/dev/null"} {
		_, err := BlockSize(t.Context(), name)
		require.ErrorIs(t, err, unix.ENOTBLK)
	}
	_, err := BlockSize(t.Context(), dir+"/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = BlockSize(ctx, dir)
	require.ErrorIs(t, err, context.Canceled)
}
