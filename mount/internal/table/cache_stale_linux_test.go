package table

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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"golang.org/x/sys/unix"
)

// long reports whether stress tests run at full length.
func long() bool { return os.Getenv("VOLUMEKIT_LONG") != "" }

// feedNeeds names the kernel feature that each feed requires.
var feedNeeds = map[string]string{"events": "mountevents", "poll": "statmount"}

// onEachFeed runs a test for each feed in a mount namespace of its own.
func onEachFeed(t *testing.T, test func(t *testing.T, c *Cache)) {
	for name, thing := range feedNeeds {
		t.Run(name, func(t *testing.T) {
			if !inNamespace(t) {
				return
			}
			c := &Cache{Feeds: namedFeeds[name]}
			t.Cleanup(c.Close)
			requireFeed(t, c, thing)
			test(t, c)
		})
	}
}

// requireFeed opens the cache, or skips the test if the kernel lacks thing.
func requireFeed(t *testing.T, c *Cache, thing string) {
	t.Helper()
	if _, err := c.findMounts(context.Background(), func(*index) []uint64 { return nil }); err != nil {
		skipWithout(t, thing, err)
	}
}

// requireSources skips the test if the kernel does not report sources.
func requireSources(t *testing.T, c *Cache) {
	t.Helper()
	if _, err := c.findSourced(context.Background(), func(*index) []uint64 { return nil }); err != nil {
		skipWithout(t, "mountevents", err) // a newer feature
	}
}

// TestCacheIsNeverStale compares the cache with the mount table in pauses of random changes:
// several threads mount, stack, bind, move, hide and unmount, and rename directories. One of
// them is in another mount namespace, which shares mounts with this one.
func TestCacheIsNeverStale(t *testing.T) {
	attacks(t)
	onEachFeed(t, func(t *testing.T, c *Cache) {
		comparisons := 2_000
		if long() {
			comparisons = 100_000
		}
		seed := seedOf(t)
		w := newChangingMounts(t, seed)
		stop := w.startChanges(4)
		defer stop()
		stopQueries := w.startQueries(t, c, 2)
		defer stopQueries()
		checker := &comparer{changingMounts: w, cache: c, random: rand.New(rand.NewPCG(seed, 99))}
		// A busy machine makes fewer comparisons.
		enough := time.Now().Add(15 * time.Second)
		for checker.compared < 200 || checker.mounts == 0 ||
			checker.compared < comparisons && (long() || time.Now().Before(enough)) {
			checker.compare(t)
		}
		t.Logf("%d comparisons, and %d queries without an answer of the cache; %d changes; answers held %d mounts",
			checker.compared, checker.unanswered, w.changes.Load(), checker.mounts)
	})
}

// changingMounts changes mounts below a directory.
type changingMounts struct {
	seed    uint64
	dir     string
	changes atomic.Int64
	// pause is read-locked by each change.
	pause sync.RWMutex
}

// testSources are sources of mounts.
var testSources = []string{"a", "", "a b", `a\040b`, " ", "x - tmpfs y", "server:/export", "#", "/dev/null"}

const dirCount = 6

func newChangingMounts(t *testing.T, seed uint64) *changingMounts {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	require.NoError(t, unix.Mount("changing", dir, "tmpfs", 0, ""))
	w := &changingMounts{seed: seed, dir: dir}
	for i := range dirCount {
		for j := range dirCount {
			require.NoError(t, os.MkdirAll(fmt.Sprintf("%s/%d/%d/deep", dir, i, j), 0o755))
		}
	}
	// Mounts in the shared mount appear in the other namespace, and the reverse.
	require.NoError(t, unix.Mount("shared", dir+"/0", "tmpfs", 0, ""))
	require.NoError(t, unix.Mount("", dir+"/0", "", unix.MS_SHARED, ""))
	for j := range dirCount {
		require.NoError(t, os.MkdirAll(fmt.Sprintf("%s/0/%d/deep", dir, j), 0o755))
	}
	return w
}

// path returns a directory that may exist.
func (w *changingMounts) path(random *rand.Rand) string {
	p := fmt.Sprintf("%s/%d", w.dir, random.IntN(dirCount))
	if random.IntN(4) > 0 {
		p += fmt.Sprintf("/%d", random.IntN(dirCount))
		if random.IntN(3) == 0 {
			p += "/deep"
		}
	}
	return p
}

// startChanges starts threads that change mounts, and one more in a namespace of its own.
func (w *changingMounts) startChanges(threads int) (stop func()) {
	done := make(chan struct{})
	var threadGroup sync.WaitGroup
	for i := range threads + 1 {
		threadGroup.Go(func() {
			if i == threads {
				runtime.LockOSThread() // never unlocked, so the thread ends
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
	return sync.OnceFunc(func() { close(done); threadGroup.Wait() })
}

// change makes one random change. It may fail: other threads make changes, too.
func (w *changingMounts) change(random *rand.Rand) {
	from, to := w.path(random), w.path(random)
	switch random.IntN(12) {
	case 0, 1:
		if unix.Mount(testSources[random.IntN(len(testSources))], to, "tmpfs", 0, "") == nil {
			_ = os.MkdirAll(fmt.Sprintf("%s/%d/deep", to, random.IntN(dirCount)), 0o755)
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
		_ = mountBeneath(from, to)
	case 8:
		_ = os.Remove(from)
		_ = os.MkdirAll(from, 0o755)
	default:
		// More unmounts than mounts, which would pile up.
		_ = unix.Unmount(to, unix.UMOUNT_NOFOLLOW|random.IntN(2)*unix.MNT_DETACH)
		_ = unix.Unmount(from, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
}

// mountBeneath attaches a clone of from beneath the mount at to.
func mountBeneath(from, to string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer kernel.Close(fd)
	const moveMountBeneath = 0x200
	return unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH|moveMountBeneath)
}

// startQueries queries the cache during the changes, and accepts any answer.
func (w *changingMounts) startQueries(t *testing.T, c *Cache, queriers int) (stop func()) {
	done := make(chan struct{})
	var queries sync.WaitGroup
	for i := range queriers {
		queries.Go(func() {
			random := rand.New(rand.NewPCG(w.seed, uint64(i+1000)))
			for {
				select {
				case <-done:
					return
				case <-time.After(50 * time.Microsecond):
				}
				p := w.path(random)
				s, err := spotAt(p)
				if err == nil {
					_, err = c.references(context.Background(), s)
				}
				requireExpected(t, err)
				_, err = c.entriesFrom(context.Background(), source{text: testSources[random.IntN(len(testSources))]})
				requireExpected(t, err)
			}
		})
	}
	return sync.OnceFunc(func() { close(done); queries.Wait() })
}

func requireExpected(t *testing.T, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// uniqueID returns the unique mount ID of the mount that a path is in.
func uniqueID(p string) (uint64, error) {
	s, err := spotAt(p)
	return s.unique, err
}

// spotAt returns the spot at p. It does not follow a link at p.
func spotAt(p string) (spot, error) {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, p, kernel.Quiet, unix.STATX_MNT_ID_UNIQUE|unix.STATX_INO, &x)
	return spot{unique: x.Mnt_id, inode: x.Ino, path: p}, err
}

func requireSpot(t *testing.T, p string) spot {
	t.Helper()
	s, err := spotAt(p)
	require.NoError(t, err)
	return s
}

// A comparer compares answers of the cache with the mount table.
type comparer struct {
	*changingMounts
	cache      *Cache
	random     *rand.Rand
	compared   int
	unanswered int // queries without an answer of the cache
	mounts     int // in all answers
}

// compare stops the changes, and compares the answers for some paths and all sources.
func (c *comparer) compare(t *testing.T) {
	c.pause.Lock()
	defer c.pause.Unlock()
	table, err := mountinfo.Read(t.Context())
	require.NoError(t, err)
	view := mountinfo.ViewEntries(table)
	for range 8 {
		p := c.path(c.random)
		if at := table[c.random.IntN(len(table))].Mountpoint; c.random.IntN(2) == 0 {
			p = at
		}
		s, err := spotAt(p)
		if err != nil {
			s = requireSpot(t, "/")
		}
		c.compareRefs(t, table, view, s)
	}
	for _, source := range testSources {
		c.compareFrom(t, table, source)
	}
}

func requireMountID(t *testing.T, p string) uint64 {
	t.Helper()
	id, err := uniqueID(p)
	require.NoError(t, err)
	return id
}

func (c *comparer) compareRefs(t *testing.T, table []mountinfo.Entry, view *mountinfo.View, s spot) {
	p := s.path
	in := entryAt(t, table, p)
	got, err := c.cache.references(t.Context(), s)
	c.countAnswer(t, err, len(got), func() {
		if want := view.ReferencesIn(in, p); !slices.Equal(want, got) {
			require.Equal(t, want, got, "refs of %q in\n%s", p, formatTable(table))
		}
	})
}

func (c *comparer) compareFrom(t *testing.T, table []mountinfo.Entry, text string) {
	got, err := c.cache.entriesFrom(t.Context(), source{text: text})
	c.countAnswer(t, err, len(got), func() {
		require.Equal(t, selectSource(table, text), got, "from %q", text)
	})
}

func (c *comparer) countAnswer(t *testing.T, err error, mounts int, check func()) {
	t.Helper()
	c.mounts += mounts
	if errors.Is(err, errors.ErrUnsupported) {
		c.unanswered++
		return
	}
	require.NoError(t, err)
	c.compared++
	check()
}

// entryAt returns the position of the mount that a path is in.
func entryAt(t *testing.T, table []mountinfo.Entry, p string) int {
	t.Helper()
	var x unix.Statx_t
	require.NoError(t, unix.Statx(unix.AT_FDCWD, p, kernel.Quiet, unix.STATX_MNT_ID, &x))
	at := slices.IndexFunc(table, func(i mountinfo.Entry) bool { return uint64(i.ID) == x.Mnt_id })
	if at < 0 {
		require.FailNow(t, "not in the table", "mount %d of %q in\n%s", x.Mnt_id, p, formatTable(table))
	}
	return at
}

// selectSource returns the entries with a source.
func selectSource(table []mountinfo.Entry, text string) (from []mountinfo.Entry) {
	for _, info := range table {
		if info.Source == text {
			from = append(from, info)
		}
	}
	return from
}

func formatTable(table []mountinfo.Entry) (text string) {
	for _, i := range table {
		text += fmt.Sprintf("%d %d %d:%d %q %q\n", i.ID, i.Parent, i.Major, i.Minor, i.Root, i.Mountpoint)
	}
	return text
}
