package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// long reports whether the tests that take their time are to take it.
func long() bool { return os.Getenv("VOLUMEKIT_LONG") != "" }

// feedNeeds is what a machine needs for a feed to be of use.
var feedNeeds = map[string]string{"events": "mountevents", "poll": "statmount"}

// onEachFeed runs a test in a namespace of its own, with a cache on each feed.
func onEachFeed(t *testing.T, test func(t *testing.T, c *cache)) {
	for name, thing := range feedNeeds {
		t.Run(name, func(t *testing.T) {
			if !inNamespace(t) {
				return
			}
			c := &cache{ways: Feeds[name]}
			t.Cleanup(c.close)
			needFeed(t, c, thing)
			test(t, c)
		})
	}
}

// needFeed opens the cache, or skips the test.
func needFeed(t *testing.T, c *cache, thing string) {
	t.Helper()
	if _, err := c.find(context.Background(), func(*index) []uint64 { return nil }); err != nil {
		skipWithout(t, thing, err)
	}
}

// needSources skips the test where the kernel does not tell all that the table does.
func needSources(t *testing.T, c *cache) {
	t.Helper()
	if _, err := c.findSourced(context.Background(), func(*index) []uint64 { return nil }); err != nil {
		skipWithout(t, "mountevents", err) // which came later
	}
}

// TestCacheIsNeverStale has mounts made, stacked, bound, moved, hidden and undone
// by several threads, one of them in another mount namespace that shares some with
// this one, while directories are renamed. In every pause the cache has to say what
// the mount table says.
func TestCacheIsNeverStale(t *testing.T) {
	onEachFeed(t, func(t *testing.T, c *cache) {
		comparisons := 2_000
		if long() {
			comparisons = 100_000
		}
		seed, err := strconv.ParseUint(os.Getenv("VOLUMEKIT_SEED"), 10, 64)
		if err != nil {
			seed = uint64(time.Now().UnixNano())
		}
		t.Logf("seed %d", seed)
		w := newWilderness(t, seed)
		stop := w.goWild(4)
		defer stop()
		stopAsking := w.askWildly(t, c, 2)
		defer stopAsking()
		checker := &comparer{wilderness: w, cache: c, random: rand.New(rand.NewPCG(seed, 99))}
		// A machine that is busy with other things compares less.
		enough := time.Now().Add(15 * time.Second)
		for checker.compared < 200 || checker.mounts == 0 ||
			checker.compared < comparisons && (long() || time.Now().Before(enough)) {
			checker.compare(t)
		}
		t.Logf("%d comparisons, besides %d answers by reading; %d changes; answers held %d mounts",
			checker.compared, checker.read, w.changes.Load(), checker.mounts)
	})
}

// A wilderness is a directory in which mounts come and go.
type wilderness struct {
	seed    uint64
	dir     string
	changes atomic.Int64
	// pause is read-locked by each change.
	pause sync.RWMutex
}

// wildSources are what mounts are made from.
var wildSources = []string{"a", "", "a b", `a\040b`, " ", "x - tmpfs y", "server:/export", "#", "/dev/null"}

const wildDirs = 6

func newWilderness(t *testing.T, seed uint64) *wilderness {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	require.NoError(t, unix.Mount("wild", dir, "tmpfs", 0, ""))
	w := &wilderness{seed: seed, dir: dir}
	for i := range wildDirs {
		for j := range wildDirs {
			require.NoError(t, os.MkdirAll(fmt.Sprintf("%s/%d/%d/deep", dir, i, j), 0o755))
		}
	}
	// What is mounted here appears in other namespaces, and the other way round.
	require.NoError(t, unix.Mount("shared", dir+"/0", "tmpfs", 0, ""))
	require.NoError(t, unix.Mount("", dir+"/0", "", unix.MS_SHARED, ""))
	for j := range wildDirs {
		require.NoError(t, os.MkdirAll(fmt.Sprintf("%s/0/%d/deep", dir, j), 0o755))
	}
	return w
}

// path returns a directory that may be there.
func (w *wilderness) path(random *rand.Rand) string {
	p := fmt.Sprintf("%s/%d", w.dir, random.IntN(wildDirs))
	if random.IntN(4) > 0 {
		p += fmt.Sprintf("/%d", random.IntN(wildDirs))
		if random.IntN(3) == 0 {
			p += "/deep"
		}
	}
	return p
}

// goWild starts threads that change mounts, and one more in a namespace of its own.
func (w *wilderness) goWild(threads int) (stop func()) {
	done := make(chan struct{})
	var wild sync.WaitGroup
	for i := range threads + 1 {
		wild.Go(func() {
			if i == threads {
				runtime.LockOSThread() // and never unlocked: the thread ends
				if unix.Unshare(unix.CLONE_NEWNS) != nil {
					return
				}
			}
			random := rand.New(rand.NewPCG(w.seed, uint64(i)))
			for {
				select {
				case <-done:
					return
				default:
				}
				w.pause.RLock()
				w.change(random)
				w.pause.RUnlock()
				w.changes.Add(1)
			}
		})
	}
	return sync.OnceFunc(func() { close(done); wild.Wait() })
}

// change does something. It may fail: somebody else was faster.
func (w *wilderness) change(random *rand.Rand) {
	from, to := w.path(random), w.path(random)
	switch random.IntN(12) {
	case 0, 1:
		if unix.Mount(wildSources[random.IntN(len(wildSources))], to, "tmpfs", 0, "") == nil {
			_ = os.MkdirAll(fmt.Sprintf("%s/%d/deep", to, random.IntN(wildDirs)), 0o755)
		}
	case 2, 3:
		_ = unix.Mount(from, to, "", unix.MS_BIND, "")
	case 4:
		if random.IntN(4) == 0 {
			_ = unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
		}
	case 5:
		_ = unix.Mount(from, to, "", unix.MS_MOVE, "")
	case 6:
		_ = unix.Rename(from, to+"-")
		_ = unix.Rename(to+"-", to)
		_ = os.MkdirAll(from, 0o755)
	case 7:
		_ = beneath(from, to)
	case 8:
		_ = os.Remove(from)
		_ = os.MkdirAll(from, 0o755)
	default:
		// More often than it is needed, so that they do not pile up.
		_ = unix.Unmount(to, unix.UMOUNT_NOFOLLOW|random.IntN(2)*unix.MNT_DETACH)
		_ = unix.Unmount(from, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
}

// beneath mounts under what is mounted.
func beneath(from, to string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	const moveMountBeneath = 0x200
	return unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH|moveMountBeneath)
}

// askWildly asks the cache beside the changes. Any answer will do.
func (w *wilderness) askWildly(t *testing.T, c *cache, askers int) (stop func()) {
	done := make(chan struct{})
	var asking sync.WaitGroup
	for i := range askers {
		asking.Go(func() {
			random := rand.New(rand.NewPCG(w.seed, uint64(i+1000)))
			for {
				select {
				case <-done:
					return
				case <-time.After(50 * time.Microsecond):
				}
				p := w.path(random)
				id, err := uniqueID(p)
				if err == nil {
					_, err = c.refs(context.Background(), id, p)
				}
				explained(t, err)
				_, err = c.from(context.Background(), origin{source: wildSources[random.IntN(len(wildSources))]})
				explained(t, err)
			}
		})
	}
	return sync.OnceFunc(func() { close(done); asking.Wait() })
}

func explained(t *testing.T, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// uniqueID returns the mount that a path is in.
func uniqueID(p string) (uint64, error) {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, p, quiet, unix.STATX_MNT_ID_UNIQUE, &x)
	return x.Mnt_id, err
}

// A comparer asks the cache and the table the same.
type comparer struct {
	*wilderness
	cache    *cache
	random   *rand.Rand
	compared int
	read     int // not answered by the cache
	mounts   int // in all answers
}

// compare asks about some paths and all sources, in a pause.
func (c *comparer) compare(t *testing.T) {
	c.pause.Lock()
	defer c.pause.Unlock()
	table, err := readTable()
	require.NoError(t, err)
	visible := newVisibility(table)
	for range 8 {
		p := c.path(c.random)
		if at := table[c.random.IntN(len(table))].Mountpoint; c.random.IntN(2) == 0 {
			p = at
		}
		id, err := uniqueID(p)
		if err != nil {
			p, id = "/", mustID(t, "/")
		}
		c.compareRefs(t, visible, id, p)
	}
	for _, source := range wildSources {
		c.compareFrom(t, table, source)
	}
}

func mustID(t *testing.T, p string) uint64 {
	t.Helper()
	id, err := uniqueID(p)
	require.NoError(t, err)
	return id
}

func (c *comparer) compareRefs(t *testing.T, visible *visibility, id uint64, p string) {
	in := mountOf(t, visible.table, p)
	got, err := c.cache.refs(t.Context(), id, p)
	c.answered(t, err, len(got), func() {
		if want := visible.refs(in, p); !slices.Equal(want, got) {
			require.Equal(t, want, got, "refs of %q in\n%s", p, textOf(visible.table))
		}
	})
}

func (c *comparer) compareFrom(t *testing.T, table Table, source string) {
	got, err := c.cache.from(t.Context(), origin{source: source})
	c.answered(t, err, len(got), func() {
		require.Equal(t, fromTable(table, source), got, "from %q", source)
	})
}

func (c *comparer) answered(t *testing.T, err error, mounts int, check func()) {
	t.Helper()
	c.mounts += mounts
	if errors.Is(err, errors.ErrUnsupported) {
		c.read++
		return
	}
	require.NoError(t, err)
	c.compared++
	check()
}

// mountOf returns the table's line for the mount that a path is in.
func mountOf(t *testing.T, table Table, p string) Info {
	t.Helper()
	var x unix.Statx_t
	require.NoError(t, unix.Statx(unix.AT_FDCWD, p, quiet, unix.STATX_MNT_ID, &x))
	at := slices.IndexFunc(table, func(i Info) bool { return uint64(i.ID) == x.Mnt_id })
	if at < 0 {
		require.FailNow(t, "not in the table", "mount %d of %q in\n%s", x.Mnt_id, p, textOf(table))
	}
	return table[at]
}

// fromTable is MountsFrom by the table.
func fromTable(table Table, source string) (from []Info) {
	for _, info := range table {
		if info.Source == source {
			from = append(from, info)
		}
	}
	return from
}

func textOf(table Table) (text string) {
	for _, i := range table {
		text += fmt.Sprintf("%d %d %d:%d %q %q\n", i.ID, i.Parent, i.Major, i.Minor, i.Root, i.Mountpoint)
	}
	return text
}
