package scrub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/internal/beneathtest"
	"golang.org/x/sys/unix"
)

func TestEmpty(t *testing.T) {
	tests := []struct {
		name    string
		fill    []string
		options Options
		counts  Counts
		left    []string
	}{
		{name: "nothing"},
		{
			name:   "files and directories",
			fill:   []string{"a", "b/", "c/d/e", "c/d/f/", "c/g"},
			counts: Counts{Files: 3, Directories: 4},
		},
		{
			name:   "names of any bytes",
			fill:   []string{"\xff\xfe", "new\nline", "-rf", "...", " ", "*", "~", "a\\b", strings.Repeat("n", 255) + "/" + strings.Repeat("m", 255)},
			counts: Counts{Files: 9, Directories: 1},
		},
		{
			name:    "what is kept is kept in the root alone",
			fill:    []string{"keep/inside", "sub/keep", "also"},
			options: Options{Keep: []string{"keep", "also", "none"}},
			counts:  Counts{Files: 1, Directories: 1},
			left:    []string{"also", "keep", "keep/inside"},
		},
		{
			name:   "lost+found is emptied",
			fill:   []string{"lost+found/#12/data", "lost+found/#13", "sub/lost+found/x"},
			counts: Counts{Files: 3, Directories: 3},
			left:   []string{"lost+found"},
		},
		{name: "lost+found that is a file", fill: []string{"lost+found"}, counts: Counts{Files: 1}},
		{name: "one worker", fill: []string{"a/b/c", "d/e/f"}, options: Options{Workers: 1}, counts: Counts{Files: 2, Directories: 4}},
		{name: "many workers", fill: []string{"a/b/c", "d/e/f", "g/h", "i/j/k/l"}, options: Options{Workers: 256}, counts: Counts{Files: 4, Directories: 8}},
	}
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		for i, test := range tests {
			root := fmt.Sprintf("%s/%d", dir, i)
			r := open(t, root)
			testbed.Fill(t, root, test.fill...)
			if len(test.fill) > 0 {
				var left *NotEmptyError
				require.ErrorAs(t, r.Check(t.Context(), test.options), &left, test.name)
			}
			counts, err := r.Empty(t.Context(), test.options)
			require.NoError(t, err, test.name)
			require.Equal(t, test.counts, counts, test.name)
			require.ElementsMatch(t, test.left, list(t, root), test.name)
			require.NoError(t, r.Check(t.Context(), test.options), test.name)

			counts, err = r.Empty(t.Context(), test.options)
			require.NoError(t, err, "%s, again", test.name)
			require.Zero(t, counts)
		}
	})
}

// TestEmptyOnExt4: ext4 has its own lost+found, and immutable and append-only files.
func TestEmptyOnExt4(t *testing.T) {
	onExt4(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "lost+found/#1/x", "a/b", "a/c/d", "e/f/g", "h/i")
		testbed.Protect(t, dir+"/a/b", testbed.Immutable)
		testbed.Protect(t, dir+"/e/f", testbed.Immutable)
		testbed.Protect(t, dir+"/h/i", testbed.AppendOnly)
		r := open(t, dir)
		defer func() { require.NoError(t, r.Close()) }()
		for range 2 {
			_, err := r.Empty(t.Context(), Options{})
			require.ErrorIs(t, err, unix.EPERM)
			require.ElementsMatch(t, []string{"a/b", "e/f/g", "h/i"}, paths(t, err))
			require.ElementsMatch(t, []string{"a", "a/b", "e", "e/f", "e/f/g", "h", "h/i", "lost+found"}, list(t, dir))
		}
		var left *NotEmptyError
		require.ErrorAs(t, r.Check(t.Context(), Options{}), &left)
		require.ElementsMatch(t, []string{"a", "e", "h"}, left.Names)
		for _, name := range []string{"/a/b", "/e/f", "/h/i"} {
			testbed.Protect(t, dir+name, 0)
		}
		_, err := r.Empty(t.Context(), Options{})
		require.NoError(t, err)
		require.Equal(t, []string{"lost+found"}, list(t, dir))
		require.NoError(t, r.Check(t.Context(), Options{}))

		testbed.Fill(t, dir, "lost+found/x")
		require.ErrorAs(t, r.Check(t.Context(), Options{}), &left)
		require.Equal(t, []string{"lost+found/x"}, left.Names)
	})
}

// TestSubvolumes: subvolumes of btrfs are a part of the directory, also nested ones, deep ones and
// read-only snapshots. What is mounted in one stays, as do the subvolumes outside.
func TestSubvolumes(t *testing.T) {
	onBtrfs(t, func(t *testing.T, dir string) {
		defer func() { beneath.WithoutOpenat2, beneath.WithoutHandles = false, false }()
		testbed.Subvolume(t, dir, "outside")
		testbed.Fill(t, dir, "outside/canary")
		for _, without := range []bool{false, true} {
			beneath.WithoutOpenat2, beneath.WithoutHandles = without, without
			testbed.Fill(t, dir, "root/a/b/c", "root/d")
			testbed.Subvolume(t, dir+"/root/a", "sub")
			testbed.Fill(t, dir, "root/a/sub/x", "root/a/sub/e/x")
			testbed.Subvolume(t, dir+"/root/a/sub/e", "nested")
			testbed.Deepen(t, dir+"/root/a/sub/e/nested", "n", 3*beneath.Window)
			testbed.Subvolume(t, dir+"/root", "empty")
			testbed.Snapshot(t, dir+"/root/a/sub", dir+"/root", "snapshot")
			testbed.Snapshot(t, dir+"/root/empty", dir+"/root/a/sub/e", "empty snapshot")
			r := open(t, dir+"/root")
			_, err := r.Empty(t.Context(), Options{})
			require.NoError(t, err)
			require.NoError(t, r.Check(t.Context(), Options{}))
			require.Empty(t, list(t, dir+"/root"))
			require.NoError(t, r.Close())
		}

		testbed.Subvolume(t, dir+"/root", "sub")
		testbed.Fill(t, dir, "root/sub/mounted/", "root/sub/x")
		require.NoError(t, unix.Mount(dir+"/outside", dir+"/root/sub/mounted", "", unix.MS_BIND, ""))
		defer func() { _ = unix.Unmount(dir+"/root/sub/mounted", unix.MNT_DETACH) }()
		r := open(t, dir+"/root")
		_, err := r.Empty(t.Context(), Options{})
		require.ErrorIs(t, err, unix.EXDEV)
		require.Equal(t, []string{"sub/mounted"}, paths(t, err))
		require.NoError(t, r.Close())
		require.FileExists(t, dir+"/outside/canary")
	})
}

// TestReadOnlySubvolume: a read-only subvolume that the caller may not make writable stays whole,
// and is removed if it is empty.
func TestReadOnlySubvolume(t *testing.T) {
	onBtrfs(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "root/x")
		testbed.Subvolume(t, dir, "sub")
		testbed.Fill(t, dir, "sub/a", "sub/b/c")
		testbed.Subvolume(t, dir, "none")
		testbed.Snapshot(t, dir+"/sub", dir+"/root", "snapshot")
		testbed.Snapshot(t, dir+"/none", dir+"/root", "empty")
		setSubvolumeFlags = func(int, uint64) error { return unix.EPERM }
		defer func() { setSubvolumeFlags = setFlags }()
		r := open(t, dir+"/root")
		defer func() { require.NoError(t, r.Close()) }()
		_, err := r.Empty(t.Context(), Options{})
		require.ErrorIs(t, err, unix.EPERM)
		require.Equal(t, []string{"snapshot"}, paths(t, err))
		require.ElementsMatch(t, []string{"snapshot", "snapshot/a", "snapshot/b", "snapshot/b/c"}, list(t, dir+"/root"))
	})
}

// TestSubvolumesAsTrash: subvolumes are moved into the trash whole. One in the place of the trash
// is refused, and one in the place of lost+found is moved.
func TestSubvolumesAsTrash(t *testing.T) {
	onBtrfs(t, func(t *testing.T, dir string) {
		o := Options{Trash: ".trash"}
		testbed.Fill(t, dir, "root/x")
		for _, name := range []string{"sub", "lost+found"} {
			testbed.Subvolume(t, dir+"/root", name)
			testbed.Fill(t, dir, "root/"+name+"/x")
		}
		testbed.Snapshot(t, dir+"/root/sub", dir+"/root", "snapshot")
		r := open(t, dir+"/root")
		defer func() { require.NoError(t, r.Close()) }()
		_, err := r.Empty(t.Context(), o)
		require.NoError(t, err)
		_, err = r.DeleteTrash(t.Context(), o)
		require.NoError(t, err)
		require.Empty(t, list(t, dir+"/root"))

		testbed.Subvolume(t, dir+"/root", ".trash")
		testbed.Fill(t, dir, "root/x")
		_, err = r.Empty(t.Context(), o)
		require.ErrorContains(t, err, "subvolume")
		require.FileExists(t, dir+"/root/x")
	})
}

// TestLinkTargetsStay: links are removed, their targets stay.
func TestLinkTargetsStay(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "outside/file", "outside/sub/file", "root/sub/")
		before := list(t, dir+"/outside")
		require.NoError(t, os.Link(dir+"/outside/file", dir+"/root/sub/hard"))
		require.NoError(t, os.Symlink(dir+"/outside", dir+"/root/absolute"))
		require.NoError(t, os.Symlink("../../outside", dir+"/root/sub/relative"))
		require.NoError(t, os.Symlink("..", dir+"/root/up"))
		require.NoError(t, os.Symlink("/proc/self/root", dir+"/root/magic"))
		require.NoError(t, os.Symlink(dir+"/outside", dir+"/root/lost+found"))
		require.NoError(t, unix.Mkfifo(dir+"/root/fifo", 0o600))
		counts, err := open(t, dir+"/root").Empty(t.Context(), Options{})
		require.NoError(t, err)
		require.Equal(t, Counts{Files: 7, Directories: 1}, counts)
		require.Equal(t, before, list(t, dir+"/outside"))
		require.Empty(t, list(t, dir+"/root"))
	})
}

// TestMountsStay: mounts of other and of the same file system stay, on directories and files.
func TestMountsStay(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		root := dir + "/root"
		testbed.Fill(t, dir, "outside/canary", "root/tmp/", "root/a/b/bind/", "root/a/b/gone", "root/file", "root/c/d")
		testbed.Tmpfs(t, root+"/tmp")
		testbed.Fill(t, root, "tmp/canary", "tmp/sub/canary")
		require.NoError(t, unix.Mount(dir+"/outside", root+"/a/b/bind", "", unix.MS_BIND, ""))
		require.NoError(t, unix.Mount(dir+"/outside/canary", root+"/file", "", unix.MS_BIND, ""))
		mounts := []string{"tmp", "a/b/bind", "file"}

		r := open(t, root)
		for _, o := range []Options{{}, {Workers: 1}, {Workers: 8}} {
			_, err := r.Empty(t.Context(), o)
			require.True(t, errors.Is(err, unix.EXDEV) && errors.Is(err, unix.EBUSY), "%v", err)
			require.ElementsMatch(t, mounts, paths(t, err))
		}
		require.ElementsMatch(t, []string{"tmp", "tmp/canary", "tmp/sub", "tmp/sub/canary",
			"a", "a/b", "a/b/bind", "a/b/bind/canary", "file"}, list(t, root))
		require.FileExists(t, dir+"/outside/canary")

		for _, name := range mounts {
			require.NoError(t, unix.Unmount(root+"/"+name, 0))
		}
		_, err := r.Empty(t.Context(), Options{})
		require.NoError(t, err)
		require.Empty(t, list(t, root))
	})
}

// TestMountOnLostAndFound: a file system mounted on lost+found is not emptied.
func TestMountOnLostAndFound(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "root/lost+found/")
		testbed.Tmpfs(t, dir+"/root/lost+found")
		testbed.Fill(t, dir, "root/lost+found/canary")
		r := open(t, dir+"/root")
		_, err := r.Empty(t.Context(), Options{})
		require.Equal(t, []string{"lost+found"}, paths(t, err))
		require.FileExists(t, dir+"/root/lost+found/canary")
		var left *NotEmptyError
		require.ErrorAs(t, r.Check(t.Context(), Options{}), &left)
		require.Equal(t, []string{"lost+found"}, left.Names)
	})
}

func TestOpen(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	testbed.Fill(t, dir, "a/b/", "file", "top/")
	require.NoError(t, os.Symlink("a", dir+"/link"))
	require.NoError(t, unix.Mount("/", dir+"/top", "", unix.MS_BIND|unix.MS_REC, ""))
	for name, want := range map[string]error{
		"/none": fs.ErrNotExist, "/link": unix.ENOTDIR, "/link/b": unix.ENOTDIR, "/file": unix.ENOTDIR, "/file/x": unix.ENOTDIR,
	} {
		_, err := Open(context.Background(), dir+name)
		require.ErrorIs(t, err, want, name)
	}
	_, err := Open(context.Background(), dir+"/top")
	var input *InputError
	require.ErrorAs(t, err, &input, "the root of all by another name")

	r, err := Open(context.Background(), dir+"//a/./b/")
	require.NoError(t, err)
	require.Equal(t, inode(t, dir+"/a/b"), r.Identity().Inode)
	require.NotZero(t, r.Identity().Mount)
	require.NoError(t, r.Close())
}

// TestRefusals: entries that the file system does not remove are named and counted, and all
// others are removed. An NFS client returns EBUSY for the .nfs file of an open file.
func TestRefusals(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/.nfs0001", "a/b", "c/denied", "c/d/e", "f/g/")
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			switch {
			case strings.HasPrefix(name, ".nfs"):
				return unix.EBUSY
			case name == "denied" || name == "g":
				return unix.EACCES
			}
			return unix.Unlinkat(fd, name, flags)
		})
		r := open(t, dir)
		for _, workers := range []int{1, 4} {
			_, err := r.Empty(t.Context(), Options{Workers: workers})
			require.ElementsMatch(t, []string{"a/.nfs0001", "c/denied", "f/g"}, paths(t, err))
			require.ErrorIs(t, err, unix.EBUSY)
			require.ErrorIs(t, err, unix.EACCES)
		}
		require.ElementsMatch(t, []string{"a", "a/.nfs0001", "c", "c/denied", "f", "f/g"}, list(t, dir))
	})
}

// TestEndlessEINTR: a system call that returns EINTR every time is retried a bounded
// number of times, also with a context that never ends.
func TestEndlessEINTR(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/eintr", "a/eagain", "b/c")
		again := map[string]error{"eintr": unix.EINTR, "eagain": unix.EAGAIN}
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			if err := again[name]; err != nil {
				return err
			}
			return unix.Unlinkat(fd, name, flags)
		})
		_, err := open(t, dir).Empty(context.Background(), Options{})
		require.ElementsMatch(t, []string{"a/eintr", "a/eagain"}, paths(t, err))
		require.ElementsMatch(t, []string{"a", "a/eintr", "a/eagain"}, list(t, dir))
	})
}

// TestSnapshots: a server's .snapshot directory counts as one entry that stays; a user's
// directory of that name is emptied.
func TestSnapshots(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/.snapshot/mine", "b/c")
		for i := range 1000 {
			testbed.Fill(t, dir, fmt.Sprintf("z/.snapshot/hour/%d", i))
		}
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			if name != "mine" && name != ".snapshot" && len(name) > 1 || name >= "0" && name <= "9" {
				return unix.EROFS
			}
			return unix.Unlinkat(fd, name, flags)
		})
		_, err := open(t, dir).Empty(t.Context(), Options{Workers: 1})
		var left *UnremovableError
		require.ErrorAs(t, err, &left)
		require.LessOrEqual(t, left.Count, 3)
		require.Contains(t, paths(t, err), "z/.snapshot")
		require.NoDirExists(t, dir+"/a")
		require.NoDirExists(t, dir+"/b")
	})
}

// TestOnlyTheFirstAreNamed: all entries are counted, and the first named, at any depth.
func TestOnlyTheFirstAreNamed(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		for i := range 50 {
			testbed.Fill(t, dir, fmt.Sprintf("d%d/%sstuck", i, strings.Repeat("x/", i*3)))
		}
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			if name == "stuck" {
				return unix.EPERM
			}
			return unix.Unlinkat(fd, name, flags)
		})
		_, err := open(t, dir).Empty(t.Context(), Options{})
		var left *UnremovableError
		require.ErrorAs(t, err, &left)
		require.Equal(t, 50, left.Count)
		require.Len(t, left.Entries, beneath.MaxEntries)
	})
}

// TestForbidden: an unprivileged user scrubs files of other users.
func TestForbidden(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	testbed.Fill(t, dir, "mine/x", "theirs/secret/x", "theirs/empty/", "lost+found/x", "file")
	for _, name := range []string{"", "/mine", "/mine/x", "/file"} {
		require.NoError(t, os.Chown(dir+name, 1000, 1000))
	}
	require.NoError(t, os.Chmod(dir+"/theirs/secret", 0o700))
	require.NoError(t, os.Chmod(dir+"/lost+found", 0o700))
	r := open(t, dir)
	asUser(t, func() {
		_, err := r.Empty(t.Context(), Options{Workers: 1})
		require.ErrorIs(t, err, unix.EACCES)
		require.ElementsMatch(t, []string{"theirs/secret", "theirs/empty"}, paths(t, err))
		require.ErrorContains(t, err, "; permission denied: requires CAP_DAC_OVERRIDE")
	})
	require.NoError(t, os.RemoveAll(dir+"/theirs"))
	asUser(t, func() {
		require.NoError(t, r.Check(t.Context(), Options{}), "the caller cannot read root's lost+found")
	})
	require.NoError(t, os.Chown(dir+"/lost+found", 1001, 1001))
	asUser(t, func() {
		_, err := r.Empty(t.Context(), Options{Workers: 1})
		require.Equal(t, []string{"lost+found"}, paths(t, err), "a lost+found of another user must be empty")
		require.Error(t, r.Check(t.Context(), Options{}))
	})
}

// asUser calls do with all threads of this process as another user. The tests that use it
// run in a process of their own.
func asUser(t *testing.T, do func()) {
	t.Helper()
	require.NoError(t, unix.Setresgid(-1, 1000, -1))
	require.NoError(t, unix.Setresuid(-1, 1000, -1))
	defer func() {
		require.NoError(t, unix.Setresuid(-1, 0, -1))
		require.NoError(t, unix.Setresgid(-1, 0, -1))
	}()
	do()
}

// TestContextEnds: work done before the end of ctx stays done, and the next call continues.
func TestContextEnds(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		for i := range 200 {
			testbed.Fill(t, dir, fmt.Sprintf("%d/a", i))
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		var calls atomic.Int32
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			if calls.Add(1) == 100 {
				cancel(cause)
			}
			return unix.Unlinkat(fd, name, flags)
		})
		r := open(t, dir)
		counts, err := r.Empty(ctx, Options{Workers: 1})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		require.EqualValues(t, 100, calls.Load(), "it stops between entries")
		require.EqualValues(t, 100, counts.Files+counts.Directories)

		rest, err := r.Empty(t.Context(), Options{})
		require.NoError(t, err)
		require.EqualValues(t, 300, rest.Files+rest.Directories)
	})
}

// TestHung: a call on a file system that does not answer ends with its context, and does
// nothing more when the file system answers, even if the Root is closed by then.
func TestHung(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "root/a/b", "root/c/d", "root/e/f", "canary")
		noLeaks := mounttest.NoLeaks(t)
		r, err := Open(context.Background(), dir+"/root")
		require.NoError(t, err)
		entered, answer := make(chan struct{}, 10), make(chan struct{})
		var calls atomic.Int32
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			calls.Add(1)
			entered <- struct{}{}
			<-answer
			return unix.Unlinkat(fd, name, flags)
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-entered
			cancel()
		}()
		_, err = r.Empty(ctx, Options{Workers: 1})
		require.ErrorIs(t, err, context.Canceled)

		short, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer end()
		_, err = r.Empty(short, Options{})
		require.ErrorIs(t, err, ErrBusy)

		require.NoError(t, r.Close())
		require.GreaterOrEqual(t, r.dir, 0, "it is used still")
		close(answer)
		require.Eventually(t, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.dir < 0
		}, time.Minute, time.Millisecond)
		require.EqualValues(t, 1, calls.Load())
		require.Len(t, list(t, dir+"/root"), 5, "one file of six entries is gone")
		noLeaks()
	})
}

// TestLimitedRate: the rate is not exceeded, by the clock.
func TestLimitedRate(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		for i := range 100 {
			testbed.Fill(t, dir, fmt.Sprint(i))
		}
		begin := time.Now()
		_, err := open(t, dir).Empty(t.Context(), Options{PerSecond: 500, Workers: 8})
		require.NoError(t, err)
		require.Greater(t, time.Since(begin), 190*time.Millisecond)
	})
}

// TestDescriptorsAreClosed: no descriptor stays open after any result.
func TestDescriptorsAreClosed(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		noLeaks := mounttest.NoLeaks(t)
		for i := range 60 {
			testbed.Fill(t, dir, "root/"+strings.Repeat("d/", 80)+"f", "root/a/b/c", "root/e/f/g", "root/mount/")
			require.NoError(t, unix.Mount("tmpfs", dir+"/root/mount", "tmpfs", 0, ""))
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			replaceUnlinkat(t, func(fd int, name string, flags int) error {
				if n++; n == i {
					cancel()
				}
				return unix.Unlinkat(fd, name, flags)
			})
			r, err := Open(context.Background(), dir+"/root")
			require.NoError(t, err)
			_, err = r.Empty(ctx, Options{Workers: 1})
			require.Error(t, err)
			_ = r.Check(ctx, Options{})
			_, _ = r.Empty(ctx, Options{Trash: ".trash"})
			cancel()
			require.NoError(t, r.Close())
			require.NoError(t, unix.Unmount(dir+"/root/mount", 0))
		}
		noLeaks()
	})
}
