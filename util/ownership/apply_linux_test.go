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
		}, lookAll(t, dir+"/volume"))
		require.Equal(t, "0:0 100640", look(t, dir+"/outside"))

		counts, err = Apply(t.Context(), dir+"/volume", Options{User: id(5), Group: id(8), ReadOnly: true})
		require.NoError(t, err)
		require.EqualValues(t, 10, counts.Changed)
		require.Equal(t, "5:8 100660", look(t, dir+"/volume/a/b/file"), "what is allowed stays so")
	})
}

func TestReadOnly(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "d/file")
		require.NoError(t, os.Chmod(dir+"/d/file", 0o200))
		require.NoError(t, os.Chmod(dir+"/d", 0o700))
		_, err := Apply(t.Context(), dir, Options{Group: id(7), ReadOnly: true})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"": "0:7 42755", "/d": "0:7 42750", "/d/file": "0:7 100640"}, lookAll(t, dir))
	})
}

// TestUserAlone changes no mode, but takes set-user-ID away.
func TestUserAlone(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "d/file", "d/suid")
		require.NoError(t, unix.Chmod(dir+"/d/suid", 0o4700))
		_, err := Apply(t.Context(), dir+"/d", Options{User: id(5)})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"": "5:0 40755", "/file": "5:0 100640", "/suid": "5:0 100700"}, lookAll(t, dir+"/d"))
	})
}

// TestWhatIsRightIsNotTouched, and neither looked at if the root is and that is enough.
func TestWhatIsRightIsNotTouched(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/b/c", "d", "e/")
		o := Options{Group: id(7)}
		_, err := Apply(t.Context(), dir, o)
		require.NoError(t, err)
		var calls atomic.Int64
		instead(t, func(int) error { calls.Add(1); return nil })
		counts, err := Apply(t.Context(), dir, o)
		require.NoError(t, err)
		require.Equal(t, Counts{Seen: 6}, counts)
		require.Zero(t, calls.Load())

		require.NoError(t, os.Chmod(dir+"/d", 0o600))
		o.Policy = OnRootMismatch
		counts, err = Apply(t.Context(), dir, o)
		require.NoError(t, err)
		require.Equal(t, Counts{Seen: 1}, counts)
		require.Equal(t, "0:7 100600", look(t, dir+"/d"))

		require.NoError(t, os.Chmod(dir, 0o750))
		counts, err = Apply(t.Context(), dir, o)
		require.NoError(t, err)
		require.Equal(t, Counts{Seen: 6, Changed: 2}, counts)
	})
}

// TestRootIsLast: whatever is seen on the way, the root is as it was.
func TestRootIsLast(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/b/c", "d", "e/f")
		before, calls := look(t, dir), 0
		var mu sync.Mutex
		instead(t, func(int) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls <= 2*6 { // both calls for each entry
				require.Equal(t, before, look(t, dir))
			}
			return nil
		})
		_, err := Apply(t.Context(), dir, Options{Group: id(7)})
		require.NoError(t, err)
		require.Equal(t, 2*7, calls)
		require.Equal(t, "0:7 42775", look(t, dir))
	})
}

// TestMountsInside: neither a directory nor a file on which something is mounted.
func TestMountsInside(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "outside/in/file", "outside/file", "volume/a/mounted/", "volume/mountedfile", "volume/z")
		require.NoError(t, unix.Mount(dir+"/outside", dir+"/volume/a/mounted", "", unix.MS_BIND, ""))
		require.NoError(t, unix.Mount(dir+"/outside/file", dir+"/volume/mountedfile", "", unix.MS_BIND, ""))
		for _, name := range []string{"/volume/a/mounted", "/volume/mountedfile"} {
			t.Cleanup(func() { require.NoError(t, unix.Unmount(dir+name, 0)) })
		}
		before := lookAll(t, dir+"/outside")
		for i := range 2 {
			if i == 1 { // it is no less a mount when it is right
				require.NoError(t, os.Chown(dir+"/outside/file", 0, 7))
				require.NoError(t, os.Chmod(dir+"/outside/file", 0o660))
				before = lookAll(t, dir+"/outside")
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
		require.Equal(t, before, lookAll(t, dir+"/outside"))
		require.Equal(t, "0:7 100660", look(t, dir+"/volume/z"))
	})
}

// TestRootIsAMount is what a volume is.
func TestRootIsAMount(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "disk/a/b", "pod/volume/")
		require.NoError(t, unix.Mount(dir+"/disk", dir+"/pod/volume", "", unix.MS_BIND, ""))
		t.Cleanup(func() { require.NoError(t, unix.Unmount(dir+"/pod/volume", 0)) })
		counts, err := Apply(t.Context(), dir+"/pod/volume", Options{Group: id(7)})
		require.NoError(t, err)
		require.Equal(t, Counts{Seen: 3, Changed: 3}, counts)
		require.Equal(t, "0:7 42775", look(t, dir+"/disk"))
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
		require.Equal(t, "0:0 40755", look(t, dir+"/real"))
	})
}

// TestErrors are counted, the first ones named, and the rest is changed, but not the
// root: the next call does not take it for done.
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
		before := look(t, dir)
		for _, workers := range []int{1, 4} {
			counts, err := Apply(t.Context(), dir, Options{Group: id(7), Workers: workers})
			require.ErrorIs(t, err, fs.ErrPermission)
			require.Len(t, paths(t, err), beneath.Named)
			var unchanged *UnchangedError
			require.ErrorAs(t, err, &unchanged)
			require.Equal(t, 30, unchanged.Count)
			require.Equal(t, dir, unchanged.Dir)
			require.True(t, strings.HasSuffix(unchanged.Entries[0].Path, "/stuck"), "%v", err)
			require.Contains(t, err.Error(), "30 entries could not be changed")
			require.Contains(t, err.Error(), "and 10 more")
			require.EqualValues(t, 91, counts.Seen)
			require.Equal(t, before, look(t, dir))
			require.Equal(t, "0:7 100660", look(t, dir+"/d3/file"))
		}
	})
}

func TestImmutable(t *testing.T) {
	testbed.Disk{FSType: "ext4", Size: 64 << 20, Options: []string{"-q", "-F"}}.Run(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/immutable", "a/file", "b/dir/file")
		testbed.Protect(t, dir+"/a/immutable", testbed.Immutable)
		testbed.Protect(t, dir+"/b/dir", testbed.Immutable)
		o := Options{Group: id(7)}
		_, err := Apply(t.Context(), dir, o)
		require.ErrorIs(t, err, unix.EPERM)
		require.ElementsMatch(t, []string{"a/immutable", "b/dir"}, paths(t, err))
		require.Equal(t, "0:7 100660", look(t, dir+"/b/dir/file"), "what is in it can be changed")
		require.NotEqual(t, "0:7 42775", look(t, dir))

		testbed.Protect(t, dir+"/a/immutable", 0)
		testbed.Protect(t, dir+"/b/dir", 0)
		_, err = Apply(t.Context(), dir, o)
		require.NoError(t, err)
	})
}

// TestReadOnlyFileSystem ends at the first change, and is no error without one.
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

// TestGoneMeanwhile is no error.
func TestGoneMeanwhile(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/b/c", "d/e", "f")
		var once sync.Once
		instead(t, func(int) error {
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

func TestEndedBefore(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		_, err := Apply(ctx, dir, Options{Group: id(7)})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.Equal(t, "0:0 40755", look(t, dir))
	})
}

// TestEndedMeanwhile changes nothing more, and the next call goes on.
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
			instead(t, func(int) error {
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
			require.Equal(t, "0:0 40755", look(t, dir))
			cancel()
		}
		_, err := Apply(t.Context(), dir, Options{Group: id(7)})
		require.NoError(t, err)
		check()
	})
}

// TestStuck: a file system that does not answer holds nobody up whose context ends, and
// the next one waits for its turn.
func TestStuck(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a", "b")
		check := mounttest.NoLeaks(t)
		stuck, answer := make(chan struct{}), make(chan struct{})
		var once sync.Once
		instead(t, func(int) error {
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
		require.Equal(t, map[string]string{"": "0:8 42775", "/a": "0:8 100660", "/b": "0:8 100660"}, lookAll(t, dir))
		check()
	})
}

// TestTogether: calls for one directory come one after the other.
func TestTogether(t *testing.T) {
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
		for name, is := range lookAll(t, dir) {
			require.True(t, strings.HasPrefix(is, fmt.Sprintf("%d:%d ", x.Uid, x.Gid)), "%s: %s", name, is)
		}
	})
}

func TestProgress(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/b/c")
		var told []Counts
		counts, err := Apply(t.Context(), dir, Options{Group: id(7), Every: time.Nanosecond, Progress: func(c Counts) { told = append(told, c) }})
		require.NoError(t, err)
		require.Equal(t, counts, told[len(told)-1])
	})
}

// TestHalfDoneForAnother: what was right for one group and is half done for another one
// is taken for done by neither.
func TestHalfDoneForAnother(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a", "b", "c", "d/e")
		for _, policy := range []Policy{Always, OnRootMismatch} {
			_, err := Apply(t.Context(), dir, Options{Group: id(7)})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var calls atomic.Int32 // a worker that is ending may be at it still
			instead(t, func(int) error {
				if calls.Add(1) == 4 {
					cancel()
				}
				return nil
			})
			_, err = Apply(ctx, dir, Options{Group: id(8), Policy: policy, Workers: 1})
			require.ErrorIs(t, err, context.Canceled)
			_, err = Apply(t.Context(), dir, Options{Group: id(7), Policy: OnRootMismatch})
			require.NoError(t, err)
			for name, is := range lookAll(t, dir) {
				require.Contains(t, is, ":7 ", name)
			}
			require.Equal(t, "0:7 42775", look(t, dir))
		}
	})
}

// TestRootCannotBeMarked: nothing is changed that would be taken for done.
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
		before := lookAll(t, dir)
		_, err = Apply(t.Context(), dir, Options{Group: id(8)})
		require.ErrorIs(t, err, unix.EPERM)
		require.Equal(t, before, lookAll(t, dir))

		require.NoError(t, os.Chown(dir+"/a", 0, 9))
		_, err = Apply(t.Context(), dir, Options{Group: id(7)})
		require.NoError(t, err, "what is right needs no mark")
		require.Equal(t, before, lookAll(t, dir))
	})
}
