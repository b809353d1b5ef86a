package emptydir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestAttack: while a volume is set up, written to and torn down repeatedly, its pod swaps
// directories in it for links to a tree outside, and has a file system mounted over others.
// Nothing outside and nothing mounted is lost. TestAttackDefeatsPathWalk shows that the same attacks
// succeed against a walk by path.
func TestAttack(t *testing.T) {
	testbed.Attacks(t)
	if !mounttest.Namespace(t) {
		return
	}
	a := newAttack(t)
	end := testbed.Attack(t, a.swap, a.mount)
	mounter, unmounter := a.mounter(t, onMedium("")), a.unmounter(t)
	down, rounds := 0, testbed.UpTo(1000, 100_000)
	for i := 0; i < rounds || !a.hasStruck() && i < 100*rounds; i++ {
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
		a.refill(i)
		err := unmounter.TearDown(t.Context())
		if err == nil {
			down++
		}
		require.True(t, err == nil || volume.KindOf(err) == volume.Uncertain, "%v", err)
		if i%100 == 0 {
			require.False(t, a.hasLostFiles(), "round %d: a canary is gone, or what was in it", i)
		}
	}
	end()
	require.False(t, a.hasLostFiles(), "a canary is gone, or what was in it")
	t.Logf("%d tear-downs went through; swapped %d times, mounted %d times", down, a.swapped.Load(), a.mounted.Load())
	require.NoError(t, unmounter.TearDown(t.Context()))
	require.False(t, a.hasLostFiles())
	require.NoDirExists(t, a.volume)
}

// TestAttackDefeatsPathWalk is the control: a walk by path loses canaries to the attacks.
func TestAttackDefeatsPathWalk(t *testing.T) {
	testbed.Attacks(t)
	if !mounttest.Namespace(t) {
		return
	}
	a := newAttack(t)
	require.NoError(t, os.MkdirAll(a.volume, 0o777))
	end := testbed.Attack(t, a.swap, a.mount)
	defer end()
	for i := range 10_000 {
		a.refill(i)
		walkAndRemove(a.volume)
		if a.hasLostFiles() {
			t.Logf("the walk let the attackers out after %d rounds", i+1)
			return
		}
	}
	t.Error("the walk has lost nothing: the attack shows nothing")
}

// walkAndRemove is the usual, vulnerable removal: it uses a path after checking it.
func walkAndRemove(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if info, err := os.Lstat(name); err == nil && info.IsDir() {
			time.Sleep(time.Microsecond) // lets the attackers run on a machine with one processor
			walkAndRemove(name)
		}
		_ = os.Remove(name)
	}
}

// An attack has trees of canaries: outside of the volume, and on a file system that is
// mounted in it from time to time.
type attack struct {
	*node
	volume, outside, source string
	canaries                []string
	mounted, swapped        atomic.Int64
}

func newAttack(t *testing.T) *attack {
	dir := testbed.Dir(t)
	m := mount.New(mount.Config{})
	tmpfs := func(dir string) {
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "tmpfs", FSType: "tmpfs", Target: dir}))
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	tmpfs(dir)
	a := &attack{node: nodeIn(t, m, dir), outside: dir + "/outside", source: dir + "/source"}
	a.volume = a.unmounter(t).GetPath()
	require.NoError(t, os.Mkdir(a.source, 0o755))
	tmpfs(a.source)
	for i := range 4 {
		for _, tree := range []string{a.outside, a.source} {
			sub := fmt.Sprintf("%s/sub%d", tree, i)
			require.NoError(t, os.MkdirAll(sub, 0o755))
			require.NoError(t, os.WriteFile(sub+"/canary", []byte("alive"), 0o600))
			a.canaries = append(a.canaries, sub+"/canary")
		}
	}
	return a
}

func (a *attack) sub(n int) string { return fmt.Sprintf("%s/d%d", a.volume, n%4) }

// refill creates entries to delete. The attackers' links may be in the way.
func (a *attack) refill(i int) {
	for n := range 4 {
		sub := fmt.Sprintf("%s/sub%d", a.sub(n), i%4)
		_ = os.MkdirAll(sub, 0o755)
		_ = os.WriteFile(sub+"/junk", nil, 0o644) // perhaps among canaries, through a link
	}
}

// swap exchanges a directory for a link, for a moment.
func (a *attack) swap(n int) {
	dir, link := a.sub(n), a.volume+"/link"
	if err := os.Symlink(a.outside, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return
	}
	if unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) == nil {
		a.swapped.Add(1)
		time.Sleep(time.Duration(n%8) * time.Microsecond)
		_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
	}
}

// mount binds the canaries' file system to a directory, and unmounts it.
func (a *attack) mount(n int) {
	dir := a.sub(n)
	_ = os.Mkdir(dir, 0o755)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if unix.Mount(a.source, fmt.Sprintf("/proc/self/fd/%d", fd), "", unix.MS_BIND, "") != nil {
		return
	}
	a.mounted.Add(1)
	a.detach()
}

// detach unmounts all mounts in the volume, wherever it has been moved.
func (a *attack) detach() {
	for left := true; left; {
		left = false
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			return
		}
		for line := range strings.Lines(string(mounts)) {
			if at := strings.Fields(line)[1]; strings.HasPrefix(at, a.volume+"/") {
				left = true
				_ = unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			}
		}
	}
}

// hasStruck reports whether the attackers have mounted and swapped at least once.
func (a *attack) hasStruck() bool { return a.mounted.Load() > 0 && a.swapped.Load() > 0 }

func (a *attack) hasLostFiles() bool {
	for _, name := range a.canaries {
		if text, err := os.ReadFile(name); err != nil || string(text) != "alive" {
			return true
		}
	}
	return false
}
