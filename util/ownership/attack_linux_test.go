package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestAttack: while a directory is given to two groups in turn, attackers in it swap
// directories and files for symbolic links to the outside, and mount another file system
// over directories. Nothing outside and nothing mounted is changed. TestAttackDefeatsPathWalk shows
// that the same attacks succeed against a walk by path.
func TestAttack(t *testing.T) {
	testbed.Attacks(t)
	onEachKernel(t, func(t *testing.T, dir string) {
		a := newAttack(t, dir)
		stop := testbed.Attack(t, a.swapDirectory, a.swapFile, a.mount)
		for i := 0; i < testbed.UpTo(800, 100_000) || !a.hasStruck(); i++ {
			_, err := Apply(t.Context(), a.root, Options{Group: id(int64(1 + i%7)), Workers: 1 + i%3})
			a.requireTolerable(t, err)
			if i%100 == 0 {
				a.requireNone(t)
			}
		}
		stop()
		a.requireNone(t)
		t.Logf("%d swaps, %d mounts", a.swapped.Load(), a.mounted.Load())
	})
}

// TestAttackDefeatsPathWalk is the control: each attack, done once between the check and the change
// of a walk by path, changes a canary.
func TestAttackDefeatsPathWalk(t *testing.T) {
	testbed.Attacks(t)
	for name, test := range map[string]struct {
		at     string
		strike func(t *testing.T, a *attack)
	}{
		"directory": {"/d0/sub/file1", func(t *testing.T, a *attack) { a.link(t, a.directories[0], a.outside) }},
		"file":      {"/d0/sub/file0", func(t *testing.T, a *attack) { a.link(t, a.files[0], a.outside+"/sub/file0") }},
		"mount": {"/d0/sub/file1", func(t *testing.T, a *attack) {
			require.NoError(t, unix.Mount(a.source, a.root+"/d0", "", unix.MS_BIND, ""))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			a := newAttack(t, cage(t))
			byPath(a.root, 7, func(string) {})
			a.requireNone(t)
			byPath(a.root, 7, func(name string) {
				if name == a.root+test.at {
					test.strike(t, a)
				}
			})
			require.NotEmpty(t, a.changedCanary())
		})
	}
}

// link replaces an entry by a link, permanently.
func (a *attack) link(t *testing.T, s spot, to string) {
	t.Helper()
	name := filepath.Dir(a.root) + "/link"
	require.NoError(t, os.Symlink(to, name))
	require.NoError(t, s.exchange(name))
}

// byPath is the usual, vulnerable walk by path.
func byPath(dir string, gid int, looked func(name string)) {
	_ = filepath.Walk(dir, func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return nil
		}
		looked(name)
		_ = os.Lchown(name, -1, gid)
		if info.Mode()&fs.ModeSymlink == 0 {
			_ = os.Chmod(name, info.Mode()|readWrite)
		}
		return nil
	})
}

// An attack has a root that is given away, and trees of canaries: outside, and on a
// file system that is mounted in the root from time to time.
type attack struct {
	root, outside, source string
	canaries              []string
	directories, files    []spot
	mounted, swapped      atomic.Int64
}

func newAttack(t *testing.T, dir string) *attack {
	a := &attack{root: dir + "/root", outside: dir + "/outside", source: dir + "/source"}
	testbed.Fill(t, dir, "root/", "outside/", "source/")
	testbed.Tmpfs(t, a.source)
	for _, tree := range []string{a.outside, a.source} {
		for i := range 3 {
			testbed.Fill(t, tree, fmt.Sprintf("sub/file%d", i))
			a.canaries = append(a.canaries, fmt.Sprintf("%s/sub/file%d", tree, i))
		}
		a.canaries = append(a.canaries, tree, tree+"/sub")
	}
	for n := range 4 {
		for i := range 3 {
			testbed.Fill(t, a.root, fmt.Sprintf("d%d/sub/file%d", n, i))
		}
		a.directories = append(a.directories, spotIn(t, a.root, fmt.Sprintf("d%d", n)))
		a.files = append(a.files, spotIn(t, fmt.Sprintf("%s/d%d/sub", a.root, n), "file0"))
	}
	return a
}

// A spot is an entry to swap, by the descriptor of its directory: a path could lead to the
// outside when another attacker has swapped a directory of it.
type spot struct {
	dir  int
	name string
}

func spotIn(t *testing.T, dir, name string) spot {
	t.Helper()
	return spot{testbed.OpenPath(t, dir), name}
}

func (a *attack) swapDirectory(n int) {
	a.swap(a.directories, n%4, filepath.Dir(a.root)+"/dirlink", a.outside)
}

func (a *attack) swapFile(n int) {
	a.swap(a.files, n%4, filepath.Dir(a.root)+"/filelink", a.outside+"/sub/file0")
}

// swap exchanges an entry for a link atomically, for a moment.
func (a *attack) swap(spots []spot, n int, link, to string) {
	_ = os.Symlink(to, link)
	if spots[n].exchange(link) == nil {
		a.swapped.Add(1)
	}
	for _, s := range spots { // also the spots whose swap failed
		if _, err := unix.Readlinkat(s.dir, s.name, make([]byte, 1)); err == nil {
			_ = s.exchange(link)
		}
	}
}

func (s spot) exchange(name string) error {
	return unix.Renameat2(s.dir, s.name, unix.AT_FDCWD, name, unix.RENAME_EXCHANGE)
}

// mount binds the canaries' file system to a directory, and unmounts it.
func (a *attack) mount(n int) {
	fd, err := unix.Open(fmt.Sprintf("%s/d%d", a.root, n%4), unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	here := fmt.Sprintf("/proc/self/fd/%d", fd)
	if unix.Mount(a.source, here, "", unix.MS_BIND, "") != nil {
		return
	}
	a.mounted.Add(1)
	// The mount is on top of the descriptor's directory, which may have moved.
	for _, d := range []string{"/root/d0", "/root/d1", "/root/d2", "/root/d3", "/dirlink"} {
		_ = unix.Unmount(filepath.Dir(a.root)+d, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
}

// requireTolerable accepts the errors that attackers may cause, and fails the test for others.
func (a *attack) requireTolerable(t *testing.T, err error) {
	t.Helper()
	var unchanged *UnchangedError
	require.True(t, err == nil || errors.As(err, &unchanged), "%v", err)
}

// hasStruck reports whether the attackers have mounted and swapped at least once.
func (a *attack) hasStruck() bool { return a.mounted.Load() > 0 && a.swapped.Load() > 0 }

// changedCanary returns the name of a changed canary, or "".
func (a *attack) changedCanary() string {
	for _, name := range a.canaries {
		var x unix.Stat_t
		if err := unix.Lstat(name, &x); err != nil {
			return err.Error()
		}
		if mode := x.Mode &^ unix.S_IFMT; x.Gid != 0 || mode != 0o755 && mode != 0o640 {
			return fmt.Sprintf("%s: %d %o", name, x.Gid, mode)
		}
	}
	return ""
}

func (a *attack) requireNone(t *testing.T) {
	t.Helper()
	require.Empty(t, a.changedCanary())
}
