package subpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestAttack: while a path in a volume is bound repeatedly, attackers in the volume swap the
// directories on the way for symbolic links out of it, and for each other. Nothing outside
// is bound or created. TestAttackDefeatsPaths shows that the same swaps succeed against
// resolving, checking and mounting by path.
func TestAttack(t *testing.T) {
	testbed.Attacks(t)
	onEachTier(t, func(s *site) {
		a := newAttack(s)
		stop := a.start()
		bound := 0
		for i := 0; i < testbed.UpTo(500, 100_000) || bound == 0 || a.swapped.Load() == 0; i++ {
			req := request(s.dir, []string{"a/b/c", "a/b/new/dir", "a/link/c", "a/b"}[i%4])
			target, err := Bind(s.Context(), s.m, req)
			if err == nil {
				bound++
				require.Equal(s, a.device, deviceOf(s, target), req.Path)
			} else {
				a.requireTolerable(err)
			}
			s.cleanup()
			a.removeCreated()
		}
		stop()
		require.Equal(s, a.before, s.list("outside"))
		s.Logf("%d bound, %d swaps", bound, a.swapped.Load())
	})
}

// TestAttackDefeatsPaths is the control: each swap, done once between the check and the use of
// the paths, leads out of the volume, except the swap to a directory in the volume.
func TestAttackDefeatsPaths(t *testing.T) {
	testbed.Attacks(t)
	for i, path := range []string{"a/b/new/dir", "a/b/new/dir", "a/b/new/dir", "a/b/new/dir", "a/b/c"} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			a := newAttack(newSite(t, mount.TierAuto))
			a.fill("target/")
			path, target, s := a.dir+"/vol/"+path, a.dir+"/target", a.spots[i]
			require.Empty(t, a.byPath(path, target, func() {}))
			escaped := a.byPath(path, target, func() {
				require.NoError(t, unix.Symlinkat(s.to, a.spots[0].dir, "aside"))
				require.NoError(t, unix.Renameat2(s.dir, s.name, a.spots[0].dir, "aside", unix.RENAME_EXCHANGE))
			})
			require.Equal(t, s.to != "x", escaped != "", escaped)
		})
	}
}

// byPath is the usual, vulnerable way: it checks a path and then mounts it.
func (a *attack) byPath(path, target string, looked func()) (escaped string) {
	parent := filepath.Dir(filepath.Dir(path))
	if real, err := filepath.EvalSymlinks(parent); err != nil || !strings.HasPrefix(real, a.dir+"/vol") {
		return ""
	}
	looked()
	_ = os.MkdirAll(path, 0o755)
	if unix.Mount(path, target, "", unix.MS_BIND, "") == nil {
		defer func() { _ = unix.Unmount(target, unix.MNT_DETACH) }()
		if deviceOf(a.site, target) != a.device {
			return "something outside is bound"
		}
	}
	if len(a.list("outside")) > len(a.before) {
		return "something has been created outside"
	}
	return ""
}

type attack struct {
	*site
	spots   []spot
	b       int // the directory a/b, by descriptor
	device  uint64
	before  []string // the entries outside
	swapped atomic.Int64
}

// A spot is an entry to swap, by the descriptor of its directory.
type spot struct {
	dir      int
	name, to string
}

func newAttack(s *site) *attack {
	s.fill("vol/a/b/c/file", "vol/x/b/c/file", "outside/b/c/file")
	s.link("b", "a/link")
	a := &attack{site: s, device: deviceOf(s, s.dir+"/vol"), before: s.list("outside")}
	vol, dir := openFor(s, "vol"), openFor(s, "vol/a")
	a.b = openFor(s, "vol/a/b")
	a.spots = []spot{{vol, "a", s.dir + "/outside"}, {vol, "a", "../outside"}, {dir, "b", "../../outside/b"}, {vol, "a", "x"}, {a.b, "c", s.dir + "/outside/b/c"}}
	return a
}

func openFor(s *site, name string) int {
	s.Helper()
	fd, err := unix.Open(s.dir+"/"+name, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(s, err)
	s.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func deviceOf(s *site, name string) uint64 {
	s.Helper()
	var x unix.Stat_t
	require.NoError(s, unix.Stat(name, &x))
	return x.Dev
}

// start starts the attackers, and returns a function that stops them.
func (a *attack) start() (stop func()) {
	vol := a.spots[0].dir
	return testbed.Attack(a.T, func(n int) { a.swap(vol, a.spots[n%len(a.spots)]) })
}

// swap exchanges a directory for a link atomically, for a moment.
func (a *attack) swap(vol int, s spot) {
	_ = unix.Unlinkat(vol, "aside", 0)
	if unix.Symlinkat(s.to, vol, "aside") != nil {
		return
	}
	if unix.Renameat2(s.dir, s.name, vol, "aside", unix.RENAME_EXCHANGE) == nil {
		a.swapped.Add(1)
		_ = unix.Renameat2(s.dir, s.name, vol, "aside", unix.RENAME_EXCHANGE)
	}
}

// removeCreated removes the directories that Bind has created in the volume.
func (a *attack) removeCreated() {
	for _, name := range []string{"new/dir", "new"} {
		_ = unix.Unlinkat(a.b, name, unix.AT_REMOVEDIR)
	}
}

// requireTolerable accepts the errors that attackers may cause, and fails the test for others.
func (a *attack) requireTolerable(err error) {
	a.Helper()
	for _, want := range []error{ErrEscapes, fs.ErrNotExist, unix.ENOTDIR, errTooManyLinks} {
		if errors.Is(err, want) {
			return
		}
	}
	require.NoError(a, err)
}
