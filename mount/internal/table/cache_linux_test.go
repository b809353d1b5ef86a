package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"golang.org/x/sys/unix"
)

// A cachedDir is a directory for mounts, and the cache under test.
type cachedDir struct {
	*testing.T
	*Cache
	dir string
}

func newCachedDir(t *testing.T, c *Cache) cachedDir {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	require.NoError(t, unix.Mount("top", dir, "tmpfs", 0, ""))
	return cachedDir{t, c, dir}
}

// requireFeed opens the cache, or skips the test if the kernel lacks thing.
func (c cachedDir) requireFeed(thing string) {
	c.Helper()
	c.Cleanup(c.Close)
	requireFeed(c.T, c.Cache, thing)
}

func (c cachedDir) mkdir(names ...string) {
	c.Helper()
	for _, name := range names {
		require.NoError(c, os.MkdirAll(c.dir+name, 0o755))
	}
}

func (c cachedDir) tmpfs(source, target string) {
	c.Helper()
	c.mkdir(target)
	require.NoError(c, unix.Mount(source, c.dir+target, "tmpfs", 0, ""))
}

func (c cachedDir) bind(source, target string) {
	c.Helper()
	c.mkdir(target)
	require.NoError(c, unix.Mount(c.dir+source, c.dir+target, "", unix.MS_BIND, ""))
}

func (c cachedDir) unmount(target string) {
	c.Helper()
	require.NoError(c, unix.Unmount(c.dir+target, 0))
}

// requireRefs compares the references at p with want, and with those of the mount table.
func (c cachedDir) requireRefs(p string, want ...string) {
	c.Helper()
	table, err := mountinfo.Read(context.Background())
	require.NoError(c, err)
	require.Equal(c, mountinfo.ViewEntries(table).ReferencesIn(entryAt(c.T, table, c.dir+p), c.dir+p), c.refsOf(p), "the mount table has other references")
	for i := range want {
		want[i] = c.dir + want[i]
	}
	require.ElementsMatch(c, want, c.refsOf(p))
}

func (c cachedDir) refsOf(p string) []string {
	c.Helper()
	refs, err := c.references(c.Context(), requireSpot(c.T, c.dir+p))
	require.NoError(c, err)
	return refs
}

func (c cachedDir) requireMountsFrom(text string, want ...string) {
	c.Helper()
	got, err := c.entriesFrom(c.Context(), source{text: text})
	require.NoError(c, err)
	table, err := mountinfo.Read(context.Background())
	require.NoError(c, err)
	require.Equal(c, selectSource(table, text), got, "the mount table has other references")
	var points []string
	for _, info := range got {
		points = append(points, strings.TrimPrefix(info.Mountpoint, c.dir))
	}
	require.Equal(c, want, points)
}

// countDescriptors counts the process's descriptors whose target contains kind.
func countDescriptors(t *testing.T, kind string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, entry := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.Contains(to, kind) {
			n++
		}
	}
	return n
}

func countFeedDescriptors(t *testing.T) int {
	return countDescriptors(t, "fanotify") + countDescriptors(t, "/mountinfo")
}

// TestEntriesEqualTable: entries read mount by mount equal those of the mount table.
func TestEntriesEqualTable(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *Cache) {
		requireSources(t, cache)
		c := newCachedDir(t, cache)
		c.mkdir("/source")
		for i, source := range testSources {
			c.tmpfs(source, fmt.Sprintf("/strange %d\n\t\\040#", i))
		}
		for i, flags := range []uintptr{
			unix.MS_RDONLY, unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, unix.MS_NOATIME | unix.MS_NODIRATIME,
			unix.MS_STRICTATIME, unix.MS_SYNCHRONOUS | unix.MS_DIRSYNC | unix.MS_LAZYTIME, unix.MS_NOSYMFOLLOW,
		} {
			target := fmt.Sprintf("%s/flags/%d", c.dir, i)
			require.NoError(t, os.MkdirAll(target, 0o755))
			require.NoError(t, unix.Mount("f", target, "tmpfs", flags, "size=1m,mode=700"))
		}
		for i, steps := range [][]uintptr{{unix.MS_SHARED}, {unix.MS_SLAVE}, {unix.MS_SLAVE, unix.MS_SHARED}, {unix.MS_UNBINDABLE}} {
			first, target := fmt.Sprintf("/first/%d", i), fmt.Sprintf("/kind/%d", i)
			c.tmpfs("k", first)
			require.NoError(t, unix.Mount("", c.dir+first, "", unix.MS_SHARED, ""))
			c.bind(first, target)
			for _, step := range steps {
				require.NoError(t, unix.Mount("", c.dir+target, "", step, ""))
			}
		}
		c.bind("/source", "/gone")
		require.NoError(t, os.Remove(c.dir+"/source"))
		_ = unix.Mount("o", c.dir+"/flags", "overlay", 0, fmt.Sprintf("lowerdir=%s:%s", c.dir+"/kind", c.dir+"/first"))

		table, err := mountinfo.Read(context.Background())
		require.NoError(t, err)
		listed, err := record.List()
		require.NoError(t, err)
		l := borrowReader()
		defer l.Return()
		var read []mountinfo.Entry
		for _, id := range listed {
			entry, ok, err := l.readEntry(t.Context(), id)
			require.NoError(t, err)
			require.True(t, ok)
			read = append(read, entry)
		}
		require.Equal(t, table, read)
	})
}

// TestRenamedParents: renaming a directory above a mount point or a root has no event.
func TestRenamedParents(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *Cache) {
		c := newCachedDir(t, cache)
		c.mkdir("/source/deep", "/pods")
		c.bind("/source/deep", "/pods/a")
		c.bind("/source/deep", "/pods/b")
		c.tmpfs("over", "/over")
		c.requireRefs("/pods/a", "/pods/b")
		c.requireRefs("/source/deep", "/pods/a", "/pods/b")
		require.NoError(t, os.Rename(c.dir+"/pods", c.dir+"/renamed"))
		c.requireRefs("/renamed/a", "/renamed/b")
		require.NoError(t, os.Rename(c.dir+"/source", c.dir+"/moved"))
		c.mkdir("/source/deep")
		c.requireRefs("/source/deep")
		c.requireRefs("/moved/deep", "/renamed/a", "/renamed/b")

		// A bind mount of the top shows the directory under /over. Renaming a directory to
		// there hides the mounts below it.
		c.bind("", "/again")
		require.NoError(t, os.Rename(c.dir+"/again/renamed", c.dir+"/again/over/renamed"))
		c.requireRefs("/moved/deep")
		c.unmount("/over")
		c.requireRefs("/moved/deep", "/over/renamed/a", "/over/renamed/b")
	})
}

// TestMountedBeneath: attaching a mount beneath another mount changes the parent of the other
// mount without an event.
func TestMountedBeneath(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *Cache) {
		c := newCachedDir(t, cache)
		c.mkdir("/source")
		c.tmpfs("upper", "/target")
		c.requireRefs("/source")
		if err := mountBeneath(c.dir+"/source", c.dir+"/target"); err != nil {
			skipWithout(t, "mountevents", err) // a newer feature
		}
		c.requireRefs("/source")
		c.unmount("/target")
		c.requireRefs("/source", "/target")
	})
}

// TestSmallEventBuffer: one query reads all events.
func TestSmallEventBuffer(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	c := newCachedDir(t, &Cache{Feeds: []OpenFeed{func(string) (Feed, error) { return openEvents(0) }}})
	c.requireFeed("mountevents")
	c.mkdir("/source")
	var want []string
	for i := range 200 {
		c.bind("/source", fmt.Sprintf("/target/%d", i))
		want = append(want, fmt.Sprintf("/target/%d", i))
	}
	c.requireRefs("/source", want...)
}

// A countingFeed counts the reports of its feed that any mount may have changed.
type countingFeed struct {
	Feed
	lostReports int
}

func (s *countingFeed) ReadEvents() ([]Event, bool, error) {
	ids, all, err := s.Feed.ReadEvents()
	if all {
		s.lostReports++
	}
	return ids, all, err
}

// TestLostEvents: the kernel keeps a limited number of events, and drops later ones.
func TestLostEvents(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s := new(countingFeed)
	c := newCachedDir(t, &Cache{Feeds: []OpenFeed{func(string) (_ Feed, err error) {
		s.Feed, err = OpenEvents("")
		return s, err
	}}})
	c.requireFeed("mountevents")
	c.mkdir("/source", "/tree", "/copy")
	c.tmpfs("tree", "/tree")
	for i := range 128 {
		c.tmpfs("leaf", fmt.Sprintf("/tree/%d", i))
	}
	c.bind("/source", "/early")
	c.requireRefs("/source", "/early")
	require.Zero(t, s.lostReports)
	for range 80 { // 2 x 129 events each
		require.NoError(t, unix.Mount(c.dir+"/tree", c.dir+"/copy", "", unix.MS_BIND|unix.MS_REC, ""))
		require.NoError(t, unix.Unmount(c.dir+"/copy", unix.MNT_DETACH))
	}
	c.unmount("/early")
	c.bind("/source", "/late")
	c.requireRefs("/source", "/late")
	require.Equal(t, 1, s.lostReports)
	c.bind("/source", "/later")
	c.requireRefs("/source", "/late", "/later")
	require.Equal(t, 1, s.lostReports)
}

// TestIdleCacheUsesNothing: a cache runs no goroutine between queries, opens no feed before the
// first query, and closes its feed.
func TestIdleCacheUsesNothing(t *testing.T) {
	onEachFeed(t, func(t *testing.T, opened *Cache) {
		opened.Close()
		require.Zero(t, countFeedDescriptors(t))
		c := newCachedDir(t, &Cache{Feeds: opened.Feeds})
		c.mkdir("/source")
		require.Zero(t, countFeedDescriptors(t))
		c.requireRefs("/source")
		require.Equal(t, 1, countFeedDescriptors(t))
		stacks := make([]byte, 1<<20)
		for goroutine := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if !strings.Contains(goroutine, t.Name()) && !strings.Contains(goroutine, "TestIdle") {
				require.NotContains(t, goroutine, "volumekit/mount/internal/table.", "a goroutine runs between queries")
			}
		}
		for range 2 {
			c.Close()
			_, err := c.findMounts(context.Background(), func(*index) []uint64 { return nil })
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.Zero(t, countFeedDescriptors(t))
		}
	})
}

// TestUnreferencedCacheIsClosed: the garbage collector closes the feed of a lost cache.
func TestUnreferencedCacheIsClosed(t *testing.T) {
	onEachFeed(t, func(t *testing.T, opened *Cache) {
		opened.Close()
		for range 4 {
			_, err := (&Cache{Feeds: opened.Feeds}).findMounts(context.Background(), func(*index) []uint64 { return nil })
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { runtime.GC(); return countFeedDescriptors(t) == 0 }, time.Minute, time.Millisecond)
	})
}

// TestOtherRootIsRefused: a query of a thread with another root or mount namespace is an error.
func TestOtherRootIsRefused(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *Cache) {
		c := newCachedDir(t, cache)
		c.mkdir("/source")
		c.bind("/source", "/target")
		c.requireRefs("/source", "/target")
		refused := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked, so the thread ends
			err := unix.Unshare(unix.CLONE_NEWNS)
			if err == nil {
				_, err = c.findMounts(context.Background(), func(*index) []uint64 { return nil })
			}
			refused <- err
		}()
		require.ErrorIs(t, <-refused, errors.ErrUnsupported)
		go func() {
			runtime.LockOSThread()
			err := unix.Unshare(unix.CLONE_FS)
			if err == nil {
				err = unix.Chroot(c.dir + "/target")
			}
			if err == nil {
				_, err = c.findMounts(context.Background(), func(*index) []uint64 { return nil })
			}
			refused <- err
		}()
		require.ErrorIs(t, <-refused, errors.ErrUnsupported)
		c.requireRefs("/source", "/target")
	})
}

// TestNoFeed: each query of a cache without a feed is an error.
func TestNoFeed(t *testing.T) {
	for _, ways := range [][]OpenFeed{{}, {func(string) (Feed, error) { return nil, unix.EMFILE }}} {
		c := &Cache{Feeds: ways}
		_, err := c.entriesFrom(t.Context(), source{text: "x"})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		c.Close()
	}
}

// A failingFeed fails after its first answer.
type failingFeed struct {
	Feed
	closed *int
}

func (f failingFeed) ReadEvents() ([]Event, bool, error) { return nil, true, unix.EIO }
func (f failingFeed) Close()                             { *f.closed++; f.Feed.Close() }

// TestFailedFeedIsReopened: after an error the cache opens a new feed.
func TestFailedFeedIsReopened(t *testing.T) {
	onEachFeed(t, func(t *testing.T, opened *Cache) {
		requireSources(t, opened)
		closed := 0
		c := newCachedDir(t, &Cache{Feeds: []OpenFeed{func(string) (Feed, error) {
			f, err := opened.Feeds[0](mountinfo.Path)
			return failingFeed{f, &closed}, err
		}}})
		for i := range 3 {
			target := fmt.Sprintf("/%d", i)
			c.tmpfs("x", target)
			require.Empty(t, c.refsOf(target))
			_, err := c.entriesFrom(t.Context(), source{text: "x"})
			require.ErrorIs(t, err, unix.EIO)
			require.Equal(t, i+1, closed)
		}
	})
}

// TestPollFeedWithoutGroups: at the user's limit of fanotify groups the cache opens the poll
// feed.
func TestPollFeedWithoutGroups(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	if err := hasMountEvents(); err != nil {
		skipWithout(t, "mountevents", err)
	}
	if err := os.WriteFile("/proc/sys/user/max_fanotify_groups", []byte("0"), 0o644); err != nil {
		skipWithout(t, "userns", err)
	}
	_, err := OpenEvents("")
	require.ErrorIs(t, err, unix.EMFILE)
	c := newCachedDir(t, &Cache{})
	c.requireFeed("statmount")
	require.IsType(t, &pollFeed{}, c.feed)
	c.mkdir("/source")
	c.bind("/source", "/target")
	c.requireRefs("/source", "/target")
}

// TestQueryEndsWithContext: a query ends with its context.
func TestQueryEndsWithContext(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *Cache) {
		requireSources(t, cache)
		c := newCachedDir(t, cache)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := c.references(ctx, requireSpot(t, c.dir))
		require.ErrorIs(t, err, cause)
		_, err = c.entriesFrom(ctx, source{text: "top"})
		require.ErrorIs(t, err, cause)
		c.requireMountsFrom("top", "")
	})
}

// TestLongPaths: answers hold paths of nearly the maximum length.
func TestLongPaths(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *Cache) {
		c := newCachedDir(t, cache)
		long := strings.Repeat("/"+strings.Repeat("x", 250), 14)
		c.mkdir("/source" + long)
		c.bind("/source"+long, "/target"+long)
		c.requireRefs("/source"+long, "/target"+long)
	})
}

// TestPathTooLongForLookup: a query about a mount whose path is too long for a lookup is an
// error, unless another mount hides the mount.
func TestPathTooLongForLookup(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *Cache) {
		c := newCachedDir(t, cache)
		c.mkdir("/source", "/over")
		dir, err := unix.Open(c.dir+"/over", unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		for range 20 {
			name := strings.Repeat("x", 250)
			require.NoError(t, unix.Mkdirat(dir, name, 0o755))
			below, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC, 0)
			kernel.Close(dir)
			require.NoError(t, err)
			dir = below
		}
		err = unix.Mount(c.dir+"/source", kernel.DescriptorPath(dir), "", unix.MS_BIND, "")
		kernel.Close(dir)
		require.NoError(t, err)
		_, err = c.references(t.Context(), requireSpot(t, c.dir+"/source"))
		require.ErrorIs(t, err, errUncached)
		c.tmpfs("over", "/over")
		c.requireRefs("/source")
	})
}

// TestFeedOpensBeforeList: a cache opens its feed before it lists the mounts.
func TestFeedOpensBeforeList(t *testing.T) {
	onEachFeed(t, func(t *testing.T, opened *Cache) {
		c := newCachedDir(t, &Cache{})
		c.mkdir("/source")
		c.Feeds = []OpenFeed{func(string) (Feed, error) {
			c.bind("/source", "/before")
			f, err := opened.Feeds[0](mountinfo.Path)
			c.bind("/source", "/after")
			return f, err
		}}
		t.Cleanup(c.Close)
		require.Equal(t, []string{c.dir + "/after", c.dir + "/before"}, c.refsOf("/source"))
	})
}

// TestPendingMounts: a query whose context ends returns an error, and leaves the unread mounts
// pending.
func TestPendingMounts(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	var c Cache
	if _, err := c.findMounts(t.Context(), func(*index) []uint64 { return nil }); err != nil {
		return // no feed on this kernel
	}
	all := slices.Sorted(maps.Keys(c.index.mounts))
	c.index, c.pending = newIndex(), slices.Clone(all)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.readPending(ctx), context.Canceled)
	require.Equal(t, all, c.pending)
	known, err := c.findMounts(t.Context(), func(x *index) []uint64 { return slices.Sorted(maps.Keys(x.mounts)) })
	require.NoError(t, err)
	require.Equal(t, all, known)
	require.Empty(t, c.pending)
}
