package scrub

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/internal/beneathtest"
	"golang.org/x/sys/unix"
)

// TestAttack: while a root is emptied repeatedly, attackers in it swap directories for
// symbolic links to a tree outside, and mount file systems with canaries over directories.
// Nothing outside and nothing mounted is lost. TestAttackDefeatsRemoveAll shows that the same
// attacks succeed against os.RemoveAll.
func TestAttack(t *testing.T) {
	testbed.Attacks(t)
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		a := newAttack(t, dir)
		r := open(t, a.root)
		stop := testbed.Attack(t, a.swap, a.mount)
		for i := 0; i < testbed.UpTo(1500, 100_000) || !a.hasStruck(); i++ {
			a.refill(i)
			_, err := r.Empty(t.Context(), Options{Workers: 1 + i%3})
			a.requireTolerable(t, err)
			if i%100 == 0 {
				a.requireAll(t)
			}
		}
		stop()
		a.requireAll(t)
	})
}

// TestAttackDefeatsRemoveAll is the control: os.RemoveAll loses canaries to each attack.
func TestAttackDefeatsRemoveAll(t *testing.T) {
	testbed.Attacks(t)
	if !mounttest.Namespace(t) {
		return
	}
	a := newAttack(t, testbed.Tmpfs(t, testbed.Dir(t)))
	stop := testbed.Attack(t, a.swap, a.mount)
	defer stop()
	for i := range 100_000 {
		a.refill(i)
		_ = os.RemoveAll(a.root)
		if i%10 == 0 && a.hasLostFiles() {
			return
		}
	}
	t.Error("os.RemoveAll has lost nothing: the attack shows nothing")
}

// An attack has a root that is scrubbed, and trees of canaries: outside, and on a file
// system that is mounted in the root from time to time.
type attack struct {
	t                     *testing.T
	root, outside, source string
	canaries              []string
	mounted, swapped      atomic.Int64
}

func newAttack(t *testing.T, dir string) *attack {
	a := &attack{t: t, root: dir + "/root", outside: dir + "/outside", source: dir + "/source"}
	testbed.Fill(t, dir, "root/", "outside/", "source/")
	testbed.Tmpfs(t, a.source)
	for i := range 10 {
		for _, tree := range []string{a.outside, a.source} {
			name := fmt.Sprintf("sub%d/canary", i)
			testbed.Fill(t, tree, name)
			a.canaries = append(a.canaries, tree+"/"+name)
		}
	}
	return a
}

// refill creates entries to delete. The attackers' links may be in the way.
func (a *attack) refill(i int) {
	for n := range 4 {
		sub := fmt.Sprintf("%s/d%d/sub%d", a.root, n, i%10)
		_ = os.MkdirAll(sub, 0o755)
		_ = os.WriteFile(sub+"/junk", nil, 0o644) // perhaps among canaries, through a link
	}
}

// swap exchanges a directory for a link atomically, for a moment.
func (a *attack) swap(n int) {
	dir, link := fmt.Sprintf("%s/d%d", a.root, n%4), filepath.Dir(a.root)+"/link"
	_ = os.Remove(link)
	_ = os.Rename(link, fmt.Sprintf("%s/stray%d", a.root, a.swapped.Load())) // left by a swap that was not reverted
	_ = os.Symlink(a.outside, link)
	if unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) == nil {
		a.swapped.Add(1)
		_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
	}
}

// mount binds the canaries' file system to a directory, and unmounts it.
func (a *attack) mount(n int) {
	dir := fmt.Sprintf("%s/d%d", a.root, n%4)
	_ = os.MkdirAll(dir, 0o755)
	if unix.Mount(a.source, dir, "", unix.MS_BIND, "") != nil {
		return
	}
	a.mounted.Add(1)
	for unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) != nil && isMounted(dir) {
	}
}

func isMounted(dir string) bool {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, beneath.Quiet, 0, &x)
	return err == nil && x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// requireTolerable accepts the errors that attackers may cause, and fails the test for others.
func (a *attack) requireTolerable(t *testing.T, err error) {
	t.Helper()
	var left *UnremovableError
	var notEmpty *NotEmptyError
	require.True(t, err == nil || errors.As(err, &left) || errors.As(err, &notEmpty), "%v", err)
}

// hasStruck reports whether the attackers have mounted and swapped at least once.
func (a *attack) hasStruck() bool { return a.mounted.Load() > 0 && a.swapped.Load() > 0 }

func (a *attack) hasLostFiles() bool {
	for _, name := range a.canaries {
		if text, err := os.ReadFile(name); err != nil || len(text) == 0 {
			return true
		}
	}
	return false
}

func (a *attack) requireAll(t *testing.T) {
	t.Helper()
	require.False(t, a.hasLostFiles(), "a canary is gone, or what was in it")
}
