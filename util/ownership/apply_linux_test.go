package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/progress"
	"golang.org/x/sys/unix"
)

func TestApply(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "outside", "volume/a/b/file", "volume/c/", "volume/suid")
		require.NoError(t, os.Symlink(dir+"/outside", dir+"/volume/link"))
		require.NoError(t, os.Symlink("nowhere", dir+"/volume/c/dangling"))
		require.NoError(t, unix.Mkfifo(dir+"/volume/fifo", 0o604))
		require.NoError(t, unix.Mknod(dir+"/volume/null", unix.S_IFCHR|0o604, int(unix.Mkdev(1, 3))))
		require.NoError(t, unix.Chmod(dir+"/volume/suid", 0o6755))

		counts, err := Apply(t.Context(), dir+"/volume", Options{Group: id(7)})
		require.NoError(t, err)
		require.Equal(t, Counts{Seen: 10, Changed: 10}, counts)
		require.Equal(t, map[string]string{
			"": "0:7 42775", "/a": "0:7 42775", "/a/b": "0:7 42775", "/a/b/file": "0:7 100660",
			"/c": "0:7 42775", "/c/dangling": "0:7 120777", "/link": "0:7 120777",
			"/fifo": "0:7 10664", "/null": "0:7 20664", "/suid": "0:7 100775",
		}, describeEntries(t, dir+"/volume"))
		require.Equal(t, "0:0 100640", describeEntry(t, dir+"/outside"))

		counts, err = Apply(t.Context(), dir+"/volume", Options{User: id(5), Group: id(8), ReadOnly: true})
		require.NoError(t, err)
		require.EqualValues(t, 10, counts.Changed)
		require.Equal(t, "5:8 100660", describeEntry(t, dir+"/volume/a/b/file"), "what is allowed stays so")
	})
}

func TestReadOnly(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "d/file")
		require.NoError(t, os.Chmod(dir+"/d/file", 0o200))
		require.NoError(t, os.Chmod(dir+"/d", 0o700))
		_, err := Apply(t.Context(), dir, Options{Group: id(7), ReadOnly: true})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"": "0:7 42755", "/d": "0:7 42750", "/d/file": "0:7 100640"}, describeEntries(t, dir))
	})
}

// TestUserOnly: a change of the user alone changes no mode, but clears set-user-ID.
func TestUserOnly(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "d/file", "d/suid")
		require.NoError(t, unix.Chmod(dir+"/d/suid", 0o4700))
		_, err := Apply(t.Context(), dir+"/d", Options{User: id(5)})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"": "5:0 40755", "/file": "5:0 100640", "/suid": "5:0 100700"}, describeEntries(t, dir+"/d"))
	})
}

// TestCorrectEntriesAreUnchanged: entries that are right are not changed, and OnRootMismatch
// does not check them if the root is right.
func TestCorrectEntriesAreUnchanged(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/b/c", "d", "e/")
		o := Options{Group: id(7)}
		_, err := Apply(t.Context(), dir, o)
		require.NoError(t, err)
		var calls atomic.Int64
		replaceCalls(t, func(int) error { calls.Add(1); return nil })
		counts, err := Apply(t.Context(), dir, o)
		require.NoError(t, err)
		require.Equal(t, Counts{Seen: 6}, counts)
		require.Zero(t, calls.Load())

		require.NoError(t, os.Chmod(dir+"/d", 0o600))
		o.Policy = OnRootMismatch
		counts, err = Apply(t.Context(), dir, o)
		require.NoError(t, err)
		require.Equal(t, Counts{Seen: 1}, counts)
		require.Equal(t, "0:7 100600", describeEntry(t, dir+"/d"))

		require.NoError(t, os.Chmod(dir, 0o750))
		counts, err = Apply(t.Context(), dir, o)
		require.NoError(t, err)
		require.Equal(t, Counts{Seen: 6, Changed: 2}, counts)
	})
}

// TestRootIsLast: the root keeps its owner and mode until all entries are changed.
func TestRootIsLast(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/b/c", "d", "e/f")
		before, calls := describeEntry(t, dir), 0
		var mu sync.Mutex
		replaceCalls(t, func(int) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls <= 2*6 { // both calls for each entry
				require.Equal(t, before, describeEntry(t, dir))
			}
			return nil
		})
		_, err := Apply(t.Context(), dir, Options{Group: id(7)})
		require.NoError(t, err)
		require.Equal(t, 2*7, calls)
		require.Equal(t, "0:7 42775", describeEntry(t, dir))
	})
}

// TestMountsInside: directories and files that are mount points are not changed.
func TestMountsInside(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "outside/in/file", "outside/file", "volume/a/mounted/", "volume/mountedfile", "volume/z")
		require.NoError(t, unix.Mount(dir+"/outside", dir+"/volume/a/mounted", "", unix.MS_BIND, ""))
		require.NoError(t, unix.Mount(dir+"/outside/file", dir+"/volume/mountedfile", "", unix.MS_BIND, ""))
		for _, name := range []string{"/volume/a/mounted", "/volume/mountedfile"} {
			t.Cleanup(func() { require.NoError(t, unix.Unmount(dir+name, 0)) })
		}
		before := describeEntries(t, dir+"/outside")
		for i := range 2 {
			if i == 1 { // a mount whose owner is right already
				require.NoError(t, os.Chown(dir+"/outside/file", 0, 7))
				require.NoError(t, os.Chmod(dir+"/outside/file", 0o660))
				before = describeEntries(t, dir+"/outside")
			}
			counts, err := Apply(t.Context(), dir+"/volume", Options{Group: id(7)})
			require.NoError(t, err)
			if withoutClones {
				require.EqualValues(t, 2, counts.Mounts)
				require.EqualValues(t, 3, counts.Seen)
			} else {
				require.EqualValues(t, 5, counts.Seen, "with what lies under the mounts")
			}
		}
		require.Equal(t, before, describeEntries(t, dir+"/outside"))
		require.Equal(t, "0:7 100660", describeEntry(t, dir+"/volume/z"))
	})
}

// TestRootIsAMount: the root may be a mount point, as a volume's directory is.
func TestRootIsAMount(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "disk/a/b", "pod/volume/")
		require.NoError(t, unix.Mount(dir+"/disk", dir+"/pod/volume", "", unix.MS_BIND, ""))
		t.Cleanup(func() { require.NoError(t, unix.Unmount(dir+"/pod/volume", 0)) })
		counts, err := Apply(t.Context(), dir+"/pod/volume", Options{Group: id(7)})
		require.NoError(t, err)
		require.Equal(t, Counts{Seen: 3, Changed: 3}, counts)
		require.Equal(t, "0:7 42775", describeEntry(t, dir+"/disk"))
	})
}

func TestBadDirectory(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "real/sub/", "file")
		require.NoError(t, os.Symlink("real", dir+"/link"))
		require.NoError(t, os.Mkdir(dir+"/top", 0o755))
		require.NoError(t, unix.Mount("/", dir+"/top", "", unix.MS_BIND, ""))
		t.Cleanup(func() { require.NoError(t, unix.Unmount(dir+"/top", 0)) })
		o := Options{Group: id(7)}
		for name, want := range map[string]error{"link": unix.ENOTDIR, "link/sub": unix.ENOTDIR, "file": unix.ENOTDIR, "none": fs.ErrNotExist} {
			_, err := Apply(t.Context(), dir+"/"+name, o)
			require.ErrorIs(t, err, want, name)
			var at *fs.PathError
			require.ErrorAs(t, err, &at)
			require.Equal(t, dir+"/"+name, at.Path)
		}
		_, err := Apply(t.Context(), dir+"/top", o)
		var input *InputError
		require.ErrorAs(t, err, &input)
		require.Equal(t, "0:0 40755", describeEntry(t, dir+"/real"))
	})
}

// TestErrors: failures are counted, the first ones named, and all other entries changed,
// but not the root: OnRootMismatch does not mistake it for done.
func TestErrors(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		for i := range 30 {
			testbed.Fill(t, dir, fmt.Sprintf("d%d/stuck", i), fmt.Sprintf("d%d/file", i))
		}
		var stuck sync.Map
		for i := range 30 {
			var x unix.Stat_t
			require.NoError(t, unix.Lstat(fmt.Sprintf("%s/d%d/stuck", dir, i), &x))
			stuck.Store(x.Ino, true)
		}
		fchownat = func(fd int, name string, uid, gid, flags int) error {
			var x unix.Stat_t
			require.NoError(t, unix.Fstat(fd, &x))
			if _, ok := stuck.Load(x.Ino); ok {
				return unix.EPERM
			}
			return unix.Fchownat(fd, name, uid, gid, flags)
		}
		t.Cleanup(func() { fchownat = unix.Fchownat })
		before := describeEntry(t, dir)
		for _, workers := range []int{1, 4} {
			counts, err := Apply(t.Context(), dir, Options{Group: id(7), Workers: workers})
			require.ErrorIs(t, err, fs.ErrPermission)
			require.Len(t, paths(t, err), beneath.MaxEntries)
			var unchanged *UnchangedError
			require.ErrorAs(t, err, &unchanged)
			require.Equal(t, 30, unchanged.Count)
			require.Equal(t, dir, unchanged.Root)
			require.True(t, strings.HasSuffix(unchanged.Entries[0].Path, "/stuck"), "%v", err)
			require.Contains(t, err.Error(), "30 entries could not be changed")
			require.Contains(t, err.Error(), "and 10 more; operation not permitted: requires CAP_CHOWN and CAP_FOWNER")
			require.EqualValues(t, 91, counts.Seen)
			require.Equal(t, before, describeEntry(t, dir))
			require.Equal(t, "0:7 100660", describeEntry(t, dir+"/d3/file"))
		}
	})
}

// TestImmutable: immutable entries are counted as failures, and the others change.
func TestImmutable(t *testing.T) {
	testbed.Disk{FSType: "ext4", Size: 64 << 20, Options: []string{"-q", "-F"}}.Run(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/immutable", "a/file", "b/dir/file")
		testbed.Protect(t, dir+"/a/immutable", testbed.Immutable)
		testbed.Protect(t, dir+"/b/dir", testbed.Immutable)
		o := Options{Group: id(7)}
		_, err := Apply(t.Context(), dir, o)
		require.ErrorIs(t, err, unix.EPERM)
		require.ElementsMatch(t, []string{"a/immutable", "b/dir"}, paths(t, err))
		require.Equal(t, "0:7 100660", describeEntry(t, dir+"/b/dir/file"), "what is in it can be changed")
		require.NotEqual(t, "0:7 42775", describeEntry(t, dir))

		testbed.Protect(t, dir+"/a/immutable", 0)
		testbed.Protect(t, dir+"/b/dir", 0)
		_, err = Apply(t.Context(), dir, o)
		require.NoError(t, err)
	})
}

// TestReadOnlyFileSystem: the first change fails; without a change there is no error.
func TestReadOnlyFileSystem(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a", "b", "c")
		o := Options{Group: id(7)}
		remount := func(flags uintptr) {
			require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""))
		}
		remount(unix.MS_RDONLY)
		_, err := Apply(t.Context(), dir, o)
		require.ErrorIs(t, err, unix.EROFS)
		require.ErrorIs(t, err, ErrReadOnly)
		var unchanged *UnchangedError
		require.False(t, errors.As(err, &unchanged), "no list of all files")
		remount(0)
		_, err = Apply(t.Context(), dir, o)
		require.NoError(t, err)
		remount(unix.MS_RDONLY)
		_, err = Apply(t.Context(), dir, o)
		require.NoError(t, err)
	})
}

// TestVanishedEntry: an entry that disappears during the walk is no error.
func TestVanishedEntry(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/b/c", "d/e", "f")
		var once sync.Once
		replaceCalls(t, func(int) error {
			once.Do(func() {
				for _, name := range []string{"a", "d", "f"} {
					require.NoError(t, os.RemoveAll(dir+"/"+name))
				}
			})
			return nil
		})
		_, err := Apply(t.Context(), dir, Options{Group: id(7)})
		require.NoError(t, err)
	})
}

// TestUnmappedGroup: the first change to a group that the user namespace does not map ends the
// work, as all others would fail as well.
func TestUnmappedGroup(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	testbed.Fill(t, dir, "a/file", "b/file")
	_, err := Apply(t.Context(), dir, Options{Group: id(7)})
	require.ErrorIs(t, err, beneath.ErrUnmapped)
	require.ErrorIs(t, err, unix.EINVAL)
	require.EqualError(t, err, "ownership "+dir+": group 7 is not mapped in this user namespace: invalid argument")
}

func TestEndedBefore(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		_, err := Apply(ctx, dir, Options{Group: id(7)})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.Equal(t, "0:0 40755", describeEntry(t, dir))
	})
}

// TestEndedMeanwhile: nothing is changed after the end of ctx, and the next call continues.
func TestEndedMeanwhile(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		for i := range 100 {
			testbed.Fill(t, dir, fmt.Sprintf("d%d/file", i))
		}
		check := mounttest.NoLeaks(t)
		for n := range 40 {
			workers := 1 + n%2*2
			ctx, cancel := context.WithCancel(t.Context())
			var after, calls atomic.Int64
			replaceCalls(t, func(int) error {
				if ctx.Err() != nil {
					after.Add(1)
				}
				if calls.Add(1) == int64(5*n+1) {
					cancel()
				}
				return nil
			})
			_, err := Apply(ctx, dir, Options{Group: id(int64(100 + n)), Workers: workers})
			require.ErrorIs(t, err, context.Canceled)
			require.LessOrEqual(t, after.Load(), int64(workers-1), "one for each other worker")
			require.Equal(t, "0:0 40755", describeEntry(t, dir))
			cancel()
		}
		_, err := Apply(t.Context(), dir, Options{Group: id(7)})
		require.NoError(t, err)
		check()
	})
}

// TestHungCallEndsWithContext: a call on a file system that does not answer returns at the end of its
// context, and the next call waits for its turn.
func TestHungCallEndsWithContext(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a", "b")
		check := mounttest.NoLeaks(t)
		stuck, answer := make(chan struct{}), make(chan struct{})
		var once sync.Once
		replaceCalls(t, func(int) error {
			once.Do(func() { close(stuck); <-answer })
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-stuck; cancel() }()
		_, err := Apply(ctx, dir, Options{Group: id(7), Workers: 1})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrBusy)

		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err = Apply(ctx, dir, Options{Group: id(8)})
		require.ErrorIs(t, err, context.DeadlineExceeded)

		close(answer)
		_, err = Apply(t.Context(), dir, Options{Group: id(8)})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"": "0:8 42775", "/a": "0:8 100660", "/b": "0:8 100660"}, describeEntries(t, dir))
		check()
	})
}

// TestConcurrentCallsAreSerialized: calls for one directory run one after the other.
func TestConcurrentCallsAreSerialized(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		for i := range 50 {
			testbed.Fill(t, dir, fmt.Sprintf("d%d/file", i))
		}
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				_, err := Apply(t.Context(), dir, Options{User: id(int64(n)), Group: id(int64(n))})
				require.NoError(t, err)
			})
		}
		all.Wait()
		var x unix.Stat_t
		require.NoError(t, unix.Lstat(dir, &x))
		for name, is := range describeEntries(t, dir) {
			require.True(t, strings.HasPrefix(is, fmt.Sprintf("%d:%d ", x.Uid, x.Gid)), "%s: %s", name, is)
		}
	})
}

// TestProgress: the entries checked so far are reported. The first change waits for the report.
func TestProgress(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a")
		reported := make(chan struct{})
		replaceCalls(t, func(int) error { <-reported; return nil })
		var first progress.Report
		var once sync.Once
		ctx := progress.With(t.Context(), func(r progress.Report) { once.Do(func() { first = r; close(reported) }) })
		_, err := Apply(ctx, dir, Options{Group: id(7), Workers: 1})
		require.NoError(t, err)
		require.Equal(t, []string{progress.Ownership, dir, progress.Entries}, []string{first.Step, first.Object, first.Unit})
		require.Positive(t, first.Done)
	})
}

// TestPartialChangeIsNotDone: a directory that was right for one group and is half done for
// another one counts as done for neither.
func TestPartialChangeIsNotDone(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a", "b", "c", "d/e")
		for _, policy := range []Policy{Always, OnRootMismatch} {
			_, err := Apply(t.Context(), dir, Options{Group: id(7)})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var calls atomic.Int32 // atomic, as a worker of the ended call may still count
			replaceCalls(t, func(int) error {
				if calls.Add(1) == 4 {
					cancel()
				}
				return nil
			})
			_, err = Apply(ctx, dir, Options{Group: id(8), Policy: policy, Workers: 1})
			require.ErrorIs(t, err, context.Canceled)
			_, err = Apply(t.Context(), dir, Options{Group: id(7), Policy: OnRootMismatch})
			require.NoError(t, err)
			for name, is := range describeEntries(t, dir) {
				require.Contains(t, is, ":7 ", name)
			}
			require.Equal(t, "0:7 42775", describeEntry(t, dir))
		}
	})
}

// TestRootCannotBeMarked: if the root's mark cannot be cleared, nothing is changed.
func TestRootCannotBeMarked(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a", "d/e")
		_, err := Apply(t.Context(), dir, Options{Group: id(7)})
		require.NoError(t, err)
		var root unix.Stat_t
		require.NoError(t, unix.Lstat(dir, &root))
		fchmodat = func(fd int, name string, mode uint32, flags int) error {
			var x unix.Stat_t
			if at := unix.Fstatat(fd, name, &x, flags); at == nil && x.Ino == root.Ino || name != "" && strings.HasPrefix(name, "/proc/") && unix.Stat(name, &x) == nil && x.Ino == root.Ino {
				return unix.EPERM
			}
			return unix.Fchmodat(fd, name, mode, flags)
		}
		t.Cleanup(func() { fchmodat = unix.Fchmodat })
		before := describeEntries(t, dir)
		_, err = Apply(t.Context(), dir, Options{Group: id(8)})
		require.ErrorIs(t, err, unix.EPERM)
		require.Equal(t, before, describeEntries(t, dir))

		require.NoError(t, os.Chown(dir+"/a", 0, 9))
		_, err = Apply(t.Context(), dir, Options{Group: id(7)})
		require.NoError(t, err, "what is right needs no mark")
		require.Equal(t, before, describeEntries(t, dir))
	})
}
