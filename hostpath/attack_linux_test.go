package hostpath_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
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
	testbed.Attacks(t)
	for _, kind := range []v1.HostPathType{v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate} {
		t.Run(string(kind), func(t *testing.T) {
			if mounttest.Namespace(t) {
				testAttack(t, kind, newBattlefield)
			}
		})
	}
}

// TestSwappingAttackersOfLinks is the same where links are followed: those of the
// attackers are root's, but lead out of the roots.
func TestSwappingAttackersOfLinks(t *testing.T) {
	testbed.Attacks(t)
	for _, kind := range []v1.HostPathType{v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate} {
		t.Run(string(kind), func(t *testing.T) {
			if mounttest.RootNamespace(t) {
				testAttack(t, kind, newLinkedBattlefield)
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

func newLinkedBattlefield(t *testing.T) *battlefield {
	dir := testbed.Tmpfs(t, "/mnt")
	require.NoError(t, os.MkdirAll(dir+"/paths/volumes/a/b", 0o755))
	require.NoError(t, os.MkdirAll(dir+"/paths/outside/b", 0o755))
	m := mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	n := nodeIn(t, m, dir, func(c *hostpath.Config) {
		c.Roots, c.Links = []string{dir + "/paths/volumes"}, []string{dir + "/paths"}
	})
	return &battlefield{n, dir + "/paths/outside"}
}

// attack exchanges directories for links, and puts dangling ones where something is to
// be created, until the returned function is called, which leaves the directories in
// their places. Each attacker works in a directory that it holds, wherever that is by
// now. All are opened before the first attacker starts: a path opened later may lead
// outside already, and the attacker itself would create the files of an escape.
func (b *battlefield) attack(t *testing.T) (end func()) {
	volumes, dirA, dirB := openDirectory(t, b.paths+"/volumes"), openDirectory(t, b.paths+"/volumes/a"), openDirectory(t, b.paths+"/volumes/a/b")
	link1, link2 := b.paths+"/link1", b.paths+"/link2"
	require.NoError(t, os.Symlink(b.outside, link1))
	require.NoError(t, os.Symlink(b.outside+"/b", link2))
	return testbed.Attack(t,
		func(n int) { swap(n, link1, volumes, "a") },
		func(n int) { swap(n, link2, dirA, "b") },
		func(int) {
			_ = unix.Symlinkat(b.outside+"/dangling", dirB, "new")
			_ = unix.Unlinkat(dirB, "new", 0)
			time.Sleep(20 * time.Microsecond) // others have a turn
		})
}

func openDirectory(t *testing.T, dir string) int {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// swap exchanges a link and a directory, and exchanges them back: at once, or every
// fourth time after a pause, so that the link is also met by a slow walk.
func swap(n int, link string, dir int, name string) {
	for i := range 2 {
		for unix.Renameat2(unix.AT_FDCWD, link, dir, name, unix.RENAME_EXCHANGE) != nil {
			time.Sleep(20 * time.Microsecond)
		}
		if i == 1 || n%4 == 0 {
			time.Sleep(20 * time.Microsecond) // others have a turn
		}
	}
}

// describeEscape returns a description of the first effect outside the roots, or "". If target is
// not empty, it also checks the mount at target.
func (b *battlefield) describeEscape(t *testing.T, target string) string {
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
		if info.Mountpoint == target && strings.Contains(info.Root, "/outside") {
			return info.Root + " is mounted"
		}
	}
	return ""
}

func testAttack(t *testing.T, kind v1.HostPathType, newField func(*testing.T) *battlefield) {
	rounds := 1000
	switch {
	case testbed.Long():
		rounds = 100_000
	case testing.Short():
		rounds = 200
	}
	t.Run("control", func(t *testing.T) {
		b := newField(t)
		end := b.attack(t)
		defer end()
		for range 1_000_000 {
			if checkThenUse(b.paths+"/volumes/a/b/new", kind); b.describeEscape(t, "") != "" {
				t.Logf("the control lets the attackers out: %s", b.describeEscape(t, ""))
				return
			}
			_ = os.Remove(b.paths + "/volumes/a/b/new")
		}
		t.Error("the attackers are too slow to show anything")
	})
	b := newField(t)
	end := b.attack(t)
	spec := inPod(b.paths+"/volumes/a/b/new", kind)
	mounter, unmounter := b.mounterOf(t, spec), b.unmounter(t)
	t.Cleanup(func() { _ = unix.Unmount(mounter.GetPath(), unix.MNT_DETACH) })
	up := 0
	for i := range rounds {
		if mounter.SetUp(t.Context(), volume.MounterArgs{}) == nil {
			up++
		}
		require.Empty(t, b.describeEscape(t, mounter.GetPath()), "round %d", i)
		require.NoError(t, unmounter.TearDown(t.Context()), "round %d", i)
		if i%4 == 0 { // so that there is something to create
			_ = os.Remove(b.paths + "/volumes/a/b/new")
		}
	}
	end()
	require.Empty(t, b.describeEscape(t, ""))
	t.Logf("of %d rounds %d set-ups went through", rounds, up)
	require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}), "when nobody attacks")
	require.NoError(t, unmounter.TearDown(t.Context()))
	b.requireDown(t)
}

// checkThenUse imitates a program that uses a path after checking it. The pause between both gives
// the attacker a turn on a machine with one processor.
func checkThenUse(name string, kind v1.HostPathType) {
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
