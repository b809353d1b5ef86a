package hostpath_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// TestSwappingAttackers lets two attackers exchange directories on the way to a path
// for symbolic links to a place that is no volume, as fast as they can, while volumes
// are set up there, created if need be, and torn down. Nothing is created or mounted
// where the links lead. A control that looks first and then acts does escape.
func TestSwappingAttackers(t *testing.T) {
	for _, kind := range []v1.HostPathType{v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate} {
		t.Run(string(kind), func(t *testing.T) {
			if mounttest.Namespace(t) {
				testAttack(t, kind)
			}
		})
	}
}

// A battlefield is a node with a secret that the attackers would like to have.
type battlefield struct {
	*node
	outside string
}

func newBattlefield(t *testing.T) *battlefield {
	n := newNode(t, mount.Config{})
	require.NoError(t, n.mounter.Mount(t.Context(), mount.Request{Source: "tmpfs", Target: n.paths, FSType: "tmpfs"}))
	t.Cleanup(func() { _ = unix.Unmount(n.paths, unix.MNT_DETACH) })
	b := &battlefield{n, n.paths + "/outside"}
	require.NoError(t, os.MkdirAll(n.paths+"/volumes/a/b", 0o755))
	require.NoError(t, os.MkdirAll(b.outside+"/b", 0o755))
	b.node = nodeIn(t, n.mounter, n.dir)
	return b
}

// attack exchanges directories for links, and puts dangling ones where something is to
// be created, until the returned function is called, which leaves the directories in
// their places.
func (b *battlefield) attack(t *testing.T) (end func()) {
	stop := make(chan struct{})
	var attackers sync.WaitGroup
	// Each works in a directory that it holds, wherever that is by now.
	for link, victim := range map[string]struct{ dir, name, leads string }{
		b.paths + "/link1": {b.paths + "/volumes", "a", b.outside},
		b.paths + "/link2": {b.paths + "/volumes/a", "b", b.outside + "/b"},
	} {
		require.NoError(t, os.Symlink(victim.leads, link))
		dir := held(t, victim.dir)
		attackers.Go(func() { swap(link, dir, victim.name, stop) })
	}
	dir := held(t, b.paths+"/volumes/a/b")
	attackers.Go(func() {
		for !isClosed(stop) {
			_ = unix.Symlinkat(b.outside+"/dangling", dir, "new")
			_ = unix.Unlinkat(dir, "new", 0)
			time.Sleep(20 * time.Microsecond) // others have a turn
		}
	})
	return func() { close(stop); attackers.Wait() }
}

func held(t *testing.T, dir string) int {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func isClosed(stop chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// swap exchanges a link and a directory an even number of times.
func swap(link string, dir int, name string, stop chan struct{}) {
	for swapped := false; swapped || !isClosed(stop); {
		if unix.Renameat2(unix.AT_FDCWD, link, dir, name, unix.RENAME_EXCHANGE) == nil {
			swapped = !swapped
		}
		if !swapped {
			time.Sleep(20 * time.Microsecond) // others have a turn
		}
	}
}

// escaped says what happened outside, if anything did. What is mounted is looked at if
// somebody says where.
func (b *battlefield) escaped(t *testing.T, target string) string {
	names, err := filepath.Glob(b.outside + "/*")
	require.NoError(t, err)
	inside, err := filepath.Glob(b.outside + "/b/*")
	require.NoError(t, err)
	if names = append(names, inside...); len(names) > 1 {
		return "created " + strings.Join(names, ", ")
	}
	table, err := b.mounter.List(t.Context())
	require.NoError(t, err)
	for _, info := range table {
		if info.Mountpoint == target && strings.HasPrefix(info.Root, "/outside") {
			return info.Root + " is mounted"
		}
	}
	return ""
}

func testAttack(t *testing.T, kind v1.HostPathType) {
	rounds := 1000
	switch {
	case testbed.Long():
		rounds = 100_000
	case testing.Short():
		rounds = 200
	}
	t.Run("control", func(t *testing.T) {
		b := newBattlefield(t)
		end := b.attack(t)
		defer end()
		for range 1_000_000 {
			if naive(b.paths+"/volumes/a/b/new", kind); b.escaped(t, "") != "" {
				t.Logf("the control lets the attackers out: %s", b.escaped(t, ""))
				return
			}
			_ = os.Remove(b.paths + "/volumes/a/b/new")
		}
		t.Error("the attackers are too slow to show anything")
	})
	b := newBattlefield(t)
	end := b.attack(t)
	spec := inPod(b.paths+"/volumes/a/b/new", kind)
	mounter, unmounter := b.mounterOf(t, spec), b.unmounter(t)
	up := 0
	for i := range rounds {
		if mounter.SetUp(t.Context(), volume.MounterArgs{}) == nil {
			up++
		}
		require.Empty(t, b.escaped(t, mounter.GetPath()), "round %d", i)
		require.NoError(t, unmounter.TearDown(t.Context()), "round %d", i)
		if i%4 == 0 { // so that there is something to create
			_ = os.Remove(b.paths + "/volumes/a/b/new")
		}
	}
	end()
	require.Empty(t, b.escaped(t, ""))
	t.Logf("of %d rounds %d set-ups went through", rounds, up)
	require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}), "when nobody attacks")
	require.NoError(t, unmounter.TearDown(t.Context()))
	b.requireDown(t)
}

// naive does what a program does that trusts a path which it has looked at. It pauses in
// between, since with one processor hardly anybody else has a turn then.
func naive(name string, kind v1.HostPathType) {
	if resolved, err := filepath.EvalSymlinks(filepath.Dir(name)); err != nil || resolved != filepath.Dir(name) {
		return
	}
	time.Sleep(time.Microsecond)
	if kind == v1.HostPathDirectoryOrCreate {
		_ = os.MkdirAll(name, 0o755)
	} else if file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
		_ = file.Close()
	}
}
