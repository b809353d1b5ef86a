package mount

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
	"golang.org/x/sys/unix"
)

// A cachedDir is a directory to mount in, and a cache that is asked about it.
type cachedDir struct {
	*testing.T
	*cache
	dir string
}

func newCachedDir(t *testing.T, c *cache) cachedDir {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	require.NoError(t, unix.Mount("top", dir, "tmpfs", 0, ""))
	return cachedDir{t, c, dir}
}

// need opens the cache, or skips the test.
func (c cachedDir) need(thing string) {
	c.Helper()
	c.Cleanup(c.close)
	needFeed(c.T, c.cache, thing)
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

// refsAre makes sure of the answer, and that it is the table's, too.
func (c cachedDir) refsAre(p string, want ...string) {
	c.Helper()
	table, err := readTable()
	require.NoError(c, err)
	require.Equal(c, newVisibility(table).refs(mountOf(c.T, table, c.dir+p), c.dir+p), c.refsOf(p), "the table's")
	for i := range want {
		want[i] = c.dir + want[i]
	}
	require.ElementsMatch(c, want, c.refsOf(p))
}

func (c cachedDir) refsOf(p string) []string {
	c.Helper()
	refs, err := c.refs(c.Context(), mustID(c.T, c.dir+p), c.dir+p)
	require.NoError(c, err)
	return refs
}

func (c cachedDir) fromIs(source string, want ...string) {
	c.Helper()
	got, err := c.from(c.Context(), origin{source: source})
	require.NoError(c, err)
	table, err := readTable()
	require.NoError(c, err)
	require.Equal(c, fromTable(table, source), got, "the table's")
	var points []string
	for _, info := range got {
		points = append(points, strings.TrimPrefix(info.Mountpoint, c.dir))
	}
	require.Equal(c, want, points)
}

// fds counts the process's descriptors that are of the kind.
func fds(t *testing.T, kind string) (n int) {
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

func feedFDs(t *testing.T) int { return fds(t, "fanotify") + fds(t, "/mountinfo") }

// TestInfoIsTheTables: what is asked mount by mount is what the table says.
func TestInfoIsTheTables(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *cache) {
		needSources(t, cache)
		c := newCachedDir(t, cache)
		c.mkdir("/source")
		for i, source := range wildSources {
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

		table, err := readTable()
		require.NoError(t, err)
		listed, err := listMounts()
		require.NoError(t, err)
		l := newLook(t.Context())
		defer l.done()
		var asked Table
		for _, id := range listed {
			info, ok, err := l.info(id)
			require.NoError(t, err)
			require.True(t, ok)
			asked = append(asked, info)
		}
		require.Equal(t, table, asked)
	})
}

// TestRenamedParents: that a directory above a mount, or above what is mounted, got
// another name is not told by anybody.
func TestRenamedParents(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *cache) {
		c := newCachedDir(t, cache)
		c.mkdir("/source/deep", "/pods")
		c.bind("/source/deep", "/pods/a")
		c.bind("/source/deep", "/pods/b")
		c.tmpfs("over", "/over")
		c.refsAre("/pods/a", "/pods/b")
		c.refsAre("/source/deep", "/pods/a", "/pods/b")
		require.NoError(t, os.Rename(c.dir+"/pods", c.dir+"/renamed"))
		c.refsAre("/renamed/a", "/renamed/b")
		require.NoError(t, os.Rename(c.dir+"/source", c.dir+"/moved"))
		c.mkdir("/source/deep")
		c.refsAre("/source/deep")
		c.refsAre("/moved/deep", "/renamed/a", "/renamed/b")

		// A bind mount of the top shows what is under /over. A directory that is
		// renamed to there takes its mounts out of sight.
		c.bind("", "/again")
		require.NoError(t, os.Rename(c.dir+"/again/renamed", c.dir+"/again/over/renamed"))
		c.refsAre("/moved/deep")
		c.unmount("/over")
		c.refsAre("/moved/deep", "/over/renamed/a", "/over/renamed/b")
	})
}

// TestMountedBeneath: a mount that another one was put under has a new parent, and
// nobody tells.
func TestMountedBeneath(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *cache) {
		c := newCachedDir(t, cache)
		c.mkdir("/source")
		c.tmpfs("upper", "/target")
		c.refsAre("/source")
		if err := beneath(c.dir+"/source", c.dir+"/target"); err != nil {
			skipWithout(t, "mountevents", err) // which came later
		}
		c.refsAre("/source")
		c.unmount("/target")
		c.refsAre("/source", "/target")
	})
}

// TestMoreEventsThanTheBufferHolds: one question takes in all there is.
func TestMoreEventsThanTheBufferHolds(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	c := newCachedDir(t, &cache{ways: []wayToKnow{func() (feed, error) { return openEventsSized(0) }}})
	c.need("mountevents")
	c.mkdir("/source")
	var want []string
	for i := range 200 {
		c.bind("/source", fmt.Sprintf("/target/%d", i))
		want = append(want, fmt.Sprintf("/target/%d", i))
	}
	c.refsAre("/source", want...)
}

// A spy knows whether its feed said that anything may have changed.
type spy struct {
	feed
	all int
}

func (s *spy) changes() ([]uint64, bool, error) {
	ids, all, err := s.feed.changes()
	if all {
		s.all++
	}
	return ids, all, err
}

// TestLostEvents: the kernel keeps so many events, and loses the later ones.
func TestLostEvents(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s := new(spy)
	c := newCachedDir(t, &cache{ways: []wayToKnow{func() (_ feed, err error) {
		s.feed, err = openEvents()
		return s, err
	}}})
	c.need("mountevents")
	c.mkdir("/source", "/tree", "/copy")
	c.tmpfs("tree", "/tree")
	for i := range 128 {
		c.tmpfs("leaf", fmt.Sprintf("/tree/%d", i))
	}
	c.bind("/source", "/early")
	c.refsAre("/source", "/early")
	require.Zero(t, s.all)
	for range 80 { // each of them 2 x 129 events
		require.NoError(t, unix.Mount(c.dir+"/tree", c.dir+"/copy", "", unix.MS_BIND|unix.MS_REC, ""))
		require.NoError(t, unix.Unmount(c.dir+"/copy", unix.MNT_DETACH))
	}
	c.unmount("/early")
	c.bind("/source", "/late")
	c.refsAre("/source", "/late")
	require.Equal(t, 1, s.all)
	c.bind("/source", "/later")
	c.refsAre("/source", "/late", "/later")
	require.Equal(t, 1, s.all)
}

// TestIdle: a cache does nothing between questions, opens nothing before the first,
// and gives back what it has opened.
func TestIdle(t *testing.T) {
	onEachFeed(t, func(t *testing.T, opened *cache) {
		opened.close()
		require.Zero(t, feedFDs(t))
		c := newCachedDir(t, &cache{ways: opened.ways})
		c.mkdir("/source")
		require.Zero(t, feedFDs(t))
		c.refsAre("/source")
		require.Equal(t, 1, feedFDs(t))
		stacks := make([]byte, 1<<20)
		for goroutine := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if !strings.Contains(goroutine, t.Name()) && !strings.Contains(goroutine, "TestIdle") {
				require.NotContains(t, goroutine, "volumekit/mount.", "it runs")
			}
		}
		for range 2 {
			c.close()
			_, err := c.find(context.Background(), func(*index) []uint64 { return nil })
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.Zero(t, feedFDs(t))
		}
	})
}

// TestDroppedCache: a cache that nobody closes is closed when nobody has it.
func TestDroppedCache(t *testing.T) {
	onEachFeed(t, func(t *testing.T, opened *cache) {
		opened.close()
		for range 4 {
			_, err := (&cache{ways: opened.ways}).find(context.Background(), func(*index) []uint64 { return nil })
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { runtime.GC(); return feedFDs(t) == 0 }, time.Minute, time.Millisecond)
	})
}

// TestAnotherRoot: what was indexed is not what a thread sees that has another root
// or is in another namespace.
func TestAnotherRoot(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *cache) {
		c := newCachedDir(t, cache)
		c.mkdir("/source")
		c.bind("/source", "/target")
		c.refsAre("/source", "/target")
		refused := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends
			err := unix.Unshare(unix.CLONE_NEWNS)
			if err == nil {
				_, err = c.find(context.Background(), func(*index) []uint64 { return nil })
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
				_, err = c.find(context.Background(), func(*index) []uint64 { return nil })
			}
			refused <- err
		}()
		require.ErrorIs(t, <-refused, errors.ErrUnsupported)
		c.refsAre("/source", "/target")
	})
}

// TestNoFeed: without one the table has to be read.
func TestNoFeed(t *testing.T) {
	for _, ways := range [][]wayToKnow{{}, {func() (feed, error) { return nil, unix.EMFILE }}} {
		c := &cache{ways: ways}
		_, err := c.from(t.Context(), origin{source: "x"})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		c.close()
	}
}

// A tornFeed fails after its first answer.
type tornFeed struct {
	feed
	closed *int
}

func (f tornFeed) changes() ([]uint64, bool, error) { return nil, true, unix.EIO }
func (f tornFeed) close()                           { *f.closed++; f.feed.close() }

// TestTornFeed: after an error everything is asked anew.
func TestTornFeed(t *testing.T) {
	onEachFeed(t, func(t *testing.T, opened *cache) {
		needSources(t, opened)
		closed := 0
		c := newCachedDir(t, &cache{ways: []wayToKnow{func() (feed, error) {
			f, err := opened.ways[0]()
			return tornFeed{f, &closed}, err
		}}})
		for i := range 3 {
			target := fmt.Sprintf("/%d", i)
			c.tmpfs("x", target)
			require.Empty(t, c.refsOf(target))
			_, err := c.from(t.Context(), origin{source: "x"})
			require.ErrorIs(t, err, unix.EIO)
			require.Equal(t, i+1, closed)
		}
	})
}

// TestFewGroups: a user may have so many fanotify groups. Then there is the next way.
func TestFewGroups(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	if err := HasMountEvents(); err != nil {
		skipWithout(t, "mountevents", err)
	}
	if err := os.WriteFile("/proc/sys/user/max_fanotify_groups", []byte("0"), 0o644); err != nil {
		skipWithout(t, "userns", err)
	}
	_, err := openEvents()
	require.ErrorIs(t, err, unix.EMFILE)
	c := newCachedDir(t, &cache{})
	c.need("statmount")
	require.IsType(t, &pollFeed{}, c.feed)
	c.mkdir("/source")
	c.bind("/source", "/target")
	c.refsAre("/source", "/target")
}

// TestLookEnds: a question ends with its context.
func TestLookEnds(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *cache) {
		needSources(t, cache)
		c := newCachedDir(t, cache)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := c.refs(ctx, mustID(t, c.dir), c.dir)
		require.ErrorIs(t, err, cause)
		_, err = c.from(ctx, origin{source: "top"})
		require.ErrorIs(t, err, cause)
		c.fromIs("top", "")
	})
}

// TestLongPaths: no path is too long to be told.
func TestLongPaths(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *cache) {
		c := newCachedDir(t, cache)
		long := strings.Repeat("/"+strings.Repeat("x", 250), 14)
		c.mkdir("/source" + long)
		c.bind("/source"+long, "/target"+long)
		c.refsAre("/source"+long, "/target"+long)
	})
}

// TestTooLongToLookUp: whether a mount is visible that cannot be looked up is not
// for the cache to say.
func TestTooLongToLookUp(t *testing.T) {
	onEachFeed(t, func(t *testing.T, cache *cache) {
		c := newCachedDir(t, cache)
		c.mkdir("/source", "/over")
		dir, err := unix.Open(c.dir+"/over", unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		for range 20 {
			name := strings.Repeat("x", 250)
			require.NoError(t, unix.Mkdirat(dir, name, 0o755))
			below, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC, 0)
			closeFD(dir)
			require.NoError(t, err)
			dir = below
		}
		err = unix.Mount(c.dir+"/source", procFD(dir), "", unix.MS_BIND, "")
		closeFD(dir)
		require.NoError(t, err)
		_, err = c.refs(t.Context(), mustID(t, c.dir+"/source"), c.dir+"/source")
		require.ErrorIs(t, err, errUnclear)
		c.tmpfs("over", "/over")
		c.refsAre("/source")
	})
}

// TestOpeningMissesNothing: it listens before it looks.
func TestOpeningMissesNothing(t *testing.T) {
	onEachFeed(t, func(t *testing.T, opened *cache) {
		c := newCachedDir(t, &cache{})
		c.mkdir("/source")
		c.ways = []wayToKnow{func() (feed, error) {
			c.bind("/source", "/before")
			f, err := opened.ways[0]()
			c.bind("/source", "/after")
			return f, err
		}}
		t.Cleanup(c.close)
		require.Equal(t, []string{c.dir + "/after", c.dir + "/before"}, c.refsOf("/source"))
	})
}

// TestCatchUp: who has no time to learn about all mounts leaves the rest to the
// next, and says nothing.
func TestCatchUp(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	var c cache
	if _, err := c.find(t.Context(), func(*index) []uint64 { return nil }); err != nil {
		return // nothing can be learnt here
	}
	all := slices.Sorted(maps.Keys(c.index.mounts))
	c.index, c.behind = newIndex(), slices.Clone(all)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.catchUp(ctx), context.Canceled)
	require.Equal(t, all, c.behind)
	known, err := c.find(t.Context(), func(x *index) []uint64 { return slices.Sorted(maps.Keys(x.mounts)) })
	require.NoError(t, err)
	require.Equal(t, all, known)
	require.Empty(t, c.behind)
}
