package scrub

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/internal/beneathtest"
	"golang.org/x/sys/unix"
)

// TestDeep: neither descriptors nor the stack grow with the depth.
func TestDeep(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		depth := testbed.UpTo(2000, 100_000)
		for _, name := range []string{"d", strings.Repeat("long", 63)} {
			testbed.Fill(t, dir, name[:1]+"/")
			testbed.Deepen(t, dir+"/"+name[:1], name, depth)
		}
		calls, most, before := 0, 0, testbed.Descriptors(t)
		var mu sync.Mutex
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls%500 == 0 {
				most = max(most, testbed.Descriptors(t))
			}
			return unix.Unlinkat(fd, name, flags)
		})
		counts, err := open(t, dir).Empty(t.Context(), Options{Workers: 2})
		require.NoError(t, err)
		require.Equal(t, Counts{Files: int64(2 * depth), Directories: int64(2*depth + 2)}, counts)
		require.Empty(t, list(t, dir))
		require.Less(t, most, before+2*beneath.Window+20)
	})
}

// TestWide: memory does not grow with the number of entries.
func TestWide(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		entries := testbed.UpTo(20_000, 1_000_000)
		testbed.Widen(t, dir, entries)
		var most uint64
		calls := 0
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			if calls++; calls%(entries/20) == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
			return unix.Unlinkat(fd, name, flags)
		})
		counts, err := open(t, dir).Empty(t.Context(), Options{Workers: 1})
		require.NoError(t, err)
		require.EqualValues(t, entries, counts.Files)
		require.Less(t, most, uint64(16<<20))
	})
}

// TestCreatedMeanwhile: entries that are created during the walk are deleted, too.
func TestCreatedMeanwhile(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/b/c", "d")
		more := 3 // fewer than the idle passes that end the work
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			err := unix.Unlinkat(fd, name, flags)
			if flags == 0 && more > 0 {
				more--
				for i := range 1000 {
					testbed.Fill(t, dir, fmt.Sprintf("a/b/new%d", i), fmt.Sprintf("%d/new%d", more, i))
				}
			}
			return err
		})
		_, err := open(t, dir).Empty(t.Context(), Options{Workers: 1})
		require.NoError(t, err)
		require.Empty(t, list(t, dir))
	})
}

// TestEndlessCreation: if another process replaces each deleted entry, Empty returns an error.
func TestEndlessCreation(t *testing.T) {
	for _, where := range []string{"", "a/b/"} {
		beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
			testbed.Fill(t, dir, where+"file")
			n := 0
			replaceUnlinkat(t, func(fd int, name string, flags int) error {
				err := unix.Unlinkat(fd, name, flags)
				if flags == 0 && err == nil {
					n++
					require.NoError(t, unix.Mknodat(fd, strconv.Itoa(n), unix.S_IFREG|0o644, 0))
				}
				return err
			})
			r := open(t, dir)
			_, err := r.Empty(t.Context(), Options{Workers: 1})
			require.Error(t, err)
			require.LessOrEqual(t, n, maxPasses*maxPasses)
			require.Error(t, r.Check(t.Context(), Options{}))

			unlinkat = unix.Unlinkat
			_, err = r.Empty(t.Context(), Options{})
			require.NoError(t, err)
			require.NoError(t, r.Check(t.Context(), Options{}))
		})
	}
}

// TestMovedOut: while a worker is deep in the tree, a directory above it is moved out of
// the root. The worker does not follow ".." to the outside.
func TestMovedOut(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		const depth, moved = 2 * beneath.Window, beneath.Window / 2
		testbed.Fill(t, dir, "root/", "outside/")
		testbed.Deepen(t, dir+"/root", "d", depth)
		for i := range 300 {
			testbed.Fill(t, dir, fmt.Sprintf("outside/canary%d", i))
		}
		canaries := list(t, dir+"/outside")
		above := dir + "/root/" + strings.Repeat("d/", moved)
		amidst(t, above, "d", "e")
		deepest, once := inode(t, above+"e/"+strings.Repeat("d/", depth-moved-1)), sync.Once{}
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			var x unix.Stat_t
			if unix.Fstatat(fd, name, &x, unix.AT_SYMLINK_NOFOLLOW) == nil && x.Ino == deepest {
				once.Do(func() { require.NoError(t, os.Rename(above+"e", dir+"/outside/moved")) })
			}
			return unix.Unlinkat(fd, name, flags)
		})
		_, err := open(t, dir+"/root").Empty(t.Context(), Options{Workers: 1})
		require.NoError(t, err)
		require.Empty(t, list(t, dir+"/root"))
		require.Subset(t, list(t, dir+"/outside"), canaries)
		require.DirExists(t, dir+"/outside/moved")
	})
}

// amidst renames a directory so that other entries come before it and after it, wherever
// the file system inserts new names.
func amidst(t *testing.T, dir, from, to string) {
	t.Helper()
	for i := range 50 {
		testbed.Fill(t, dir, fmt.Sprintf("before%d", i))
	}
	require.NoError(t, os.Rename(dir+from, dir+to))
	for i := range 50 {
		testbed.Fill(t, dir, fmt.Sprintf("after%d", i))
	}
}

// TestChangedAfterReading: an entry that was a directory when its parent was read is a
// link, a file or a mount point when it is opened.
func TestChangedAfterReading(t *testing.T) {
	changes := map[string]func(t *testing.T, sub, outside string){
		"link": func(t *testing.T, sub, _ string) {
			require.NoError(t, os.RemoveAll(sub))
			require.NoError(t, os.Symlink("../outside", sub))
		},
		"file": func(t *testing.T, sub, outside string) {
			require.NoError(t, os.RemoveAll(sub))
			require.NoError(t, os.Link(outside+"/canary", sub))
		},
		"bind": func(t *testing.T, sub, outside string) {
			require.NoError(t, unix.Mount(outside, sub, "", unix.MS_BIND, ""))
		},
		"tmpfs": func(t *testing.T, sub, _ string) {
			testbed.Tmpfs(t, sub)
			testbed.Fill(t, sub, "canary")
		},
	}
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		for name, change := range changes {
			root, outside := dir+"/"+name+"/root", dir+"/"+name+"/outside"
			testbed.Fill(t, dir, name+"/outside/canary", name+"/root/was/x")
			amidst(t, root+"/", "was", "sub")
			var once sync.Once
			replaceUnlinkat(t, func(fd int, name string, flags int) error {
				once.Do(func() { change(t, root+"/sub", outside) })
				return unix.Unlinkat(fd, name, flags)
			})
			_, err := open(t, root).Empty(t.Context(), Options{Workers: 1})
			require.FileExists(t, outside+"/canary", name)
			if name == "link" || name == "file" {
				require.NoError(t, err, name)
				require.Empty(t, list(t, root), name)
				continue
			}
			require.ErrorIs(t, err, unix.EXDEV)
			require.FileExists(t, root+"/sub/canary", name)
		}
	})
}
