package atomicdir

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/internal/beneathtest"
	"golang.org/x/sys/unix"
)

// TestAttack: while sets are written to a directory, attackers in it replace any entry by
// symbolic links to a tree outside, and by directories, as fast as they can. Nothing outside
// is read, created, changed or lost. TestAttackDefeatsPaths shows that the same attacks succeed
// against a writer by paths.
func TestAttack(t *testing.T) {
	testbed.Attacks(t)
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		a := newAttack(t, dir)
		stop := a.start()
		var written, refused int
		for i := 0; i < testbed.UpTo(1000, 100_000) || a.swapped.Load() < 100 || written == 0; i++ {
			var o Options
			if i%3 > 0 {
				o.MountPoints = inDirectory
			}
			if _, err := Write(t.Context(), a.root, generation(i), o); err == nil {
				written++
			} else {
				refused++
				a.requireTolerable(err)
			}
			if i%100 == 0 {
				require.Empty(t, a.changeOutside(), "round %d", i)
			}
		}
		stop()
		require.Empty(t, a.changeOutside())
		for range 2 { // one Write may not remove all of the attackers' entries
			_, _ = Write(t.Context(), a.root, generation(-1), Options{})
		}
		mustWrite(t, a.root, generation(-1), Options{})
		require.Empty(t, a.changeOutside())
		t.Logf("%d written, %d refused, %d swaps", written, refused, a.swapped.Load())
	})
}

// TestAttackDefeatsPaths is the control: the attacks succeed against a writer by paths.
func TestAttackDefeatsPaths(t *testing.T) {
	testbed.Attacks(t)
	if !mounttest.Namespace(t) {
		return
	}
	a := newAttack(t, testbed.Tmpfs(t, testbed.Dir(t)))
	stop := a.start()
	defer stop()
	for i := range 100_000 {
		if i%100 == 0 {
			a.removeSets()
		}
		writeByPath(a.root, generation(i))
		if i%10 == 0 && a.changeOutside() != "" {
			t.Log("the control lets the attackers out: " + a.changeOutside())
			return
		}
	}
	t.Error("the attackers are too slow to show anything")
}

// removeSets removes the sets between rounds of the control. A directory that the attackers have
// put in the place of the link stays: then sets pile up, and the attackers hardly ever hit
// the one that is being written.
func (a *attack) removeSets() {
	list, _ := os.ReadDir(a.root)
	for _, entry := range list {
		_ = os.RemoveAll(a.root + "/" + entry.Name())
	}
}

// writeByPath writes the same layout by paths.
func writeByPath(dir string, files map[string]File) {
	set := newSetName(time.Now())
	for name, f := range files {
		at := filepath.Join(dir, set, name)
		_ = os.MkdirAll(filepath.Dir(at), 0o755)
		_ = os.WriteFile(at, f.Data, 0o644)
		_ = os.Chmod(at, 0o644)
	}
	old, _ := os.Readlink(dir + "/..data")
	_ = os.Symlink(set, dir+"/..data_tmp")
	_ = os.Rename(dir+"/..data_tmp", dir+"/..data")
	if old != "" {
		_ = os.RemoveAll(filepath.Join(dir, old))
	}
}

// An attack has a directory that sets are written to, and a tree outside.
type attack struct {
	t             *testing.T
	root, outside string
	dir           int // the root, open
	mount         uint64
	before        map[string]string
	swapped       atomic.Int64
}

func newAttack(t *testing.T, dir string) *attack {
	a := &attack{t: t, root: dir + "/root", outside: dir + "/outside"}
	require.NoError(t, os.Mkdir(a.root, 0o777))
	for _, d := range []string{"/d/e", "/dir-0", "/dir-1"} {
		require.NoError(t, os.MkdirAll(a.outside+d, 0o700))
	}
	for _, name := range []string{"/canary", "/d/b", "/d/e/c", "/d/e/canary", "/dir-0/canary"} {
		require.NoError(t, os.WriteFile(a.outside+name, []byte("precious"), 0o600))
	}
	a.before = a.describeOutside()
	var err error
	a.dir, err = beneath.OpenDirectory(a.root)
	require.NoError(t, err)
	a.mount, err = beneath.MountOf(a.dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(a.dir) })
	return a
}

// describeOutside returns the attributes and the content of the tree outside.
func (a *attack) describeOutside() map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(a.outside, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		stat := lstat(a.t, name)
		all[name] = fmt.Sprint(stat.Ino, stat.Mode, stat.Uid, stat.Gid, stat.Mtim)
		if !entry.IsDir() {
			data, err := os.ReadFile(name)
			all[name] += string(data)
			return err
		}
		return nil
	})
	if err != nil {
		all["error"] = err.Error()
	}
	return all
}

// changeOutside describes a change of the tree outside, or returns "".
func (a *attack) changeOutside() string {
	now := a.describeOutside()
	for name, was := range a.before {
		if now[name] != was {
			return name + " was " + was + ", and is " + now[name]
		}
	}
	for name := range now {
		if _, ok := a.before[name]; !ok {
			return name + " is new"
		}
	}
	return ""
}

// start starts the attackers, and returns a function that stops them and waits for their end.
func (a *attack) start() (stop func()) {
	var attackers []func(int)
	for n, attack := range []func(link, name string){a.exchange, a.replaceByLink, a.createLinks} {
		link := fmt.Sprintf("attacker-%d", n)
		attackers = append(attackers, func(int) {
			for _, name := range a.targets() {
				attack(link, name)
			}
		})
	}
	return testbed.Attack(a.t, attackers...)
}

// targets returns the entries to attack: the sets, their files and the links.
func (a *attack) targets() []string {
	var all []string
	list, _ := os.ReadDir(a.root)
	for _, entry := range list {
		name := entry.Name()
		if strings.HasPrefix(name, "attacker-") {
			continue
		}
		all = append(all, name)
		if setName.MatchString(name) {
			all = append(all, name+"/d", name+"/d/e", name, name+"/d/b", name+"/dir-0")
		}
	}
	return append(all, newDataLink, newLink, newPoint, newPoint+"/e", "d/e", "d/m", "d/e/f", "d/b")
}

// exchange puts a link in an entry's place for a moment.
func (a *attack) exchange(link, name string) {
	_ = unix.Symlinkat(a.outside, a.dir, link)
	if a.swap(link, name) {
		a.swap(link, name)
	}
}

// createLinks creates links at the names of files that are about to be written.
func (a *attack) createLinks(_, name string) {
	dir, err := beneath.Open(a.dir, name, toLook, a.mount)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(dir) }()
	for _, file := range []string{"a", "b", "c"} {
		_ = unix.Symlinkat(a.outside+"/canary", dir, file)
	}
}

// replaceByLink puts a link in an entry's place permanently, or sometimes a directory with one.
func (a *attack) replaceByLink(link, name string) {
	if rand.IntN(8) > 0 {
		return
	}
	_ = os.RemoveAll(a.root + "/" + link)
	if rand.IntN(4) > 0 {
		_ = unix.Symlinkat(a.outside, a.dir, link)
	} else {
		_ = unix.Mkdirat(a.dir, link, 0o755)
		_ = unix.Symlinkat(a.outside, a.dir, link+"/d")
	}
	a.swap(link, name)
}

// swap exchanges two entries within the directory, as a container's processes are limited
// to.
func (a *attack) swap(link, name string) bool {
	dir, err := beneath.Open(a.dir, filepath.Dir(name), toLook, a.mount)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(dir) }()
	if unix.Renameat2(a.dir, link, dir, filepath.Base(name), unix.RENAME_EXCHANGE) != nil {
		return false
	}
	a.swapped.Add(1)
	return true
}

// requireTolerable accepts the errors that attackers may cause, and fails the test for others.
func (a *attack) requireTolerable(err error) {
	a.t.Helper()
	var left *LeftoverError
	var path *fs.PathError
	require.True(a.t, errors.As(err, &left) || errors.As(err, &path), "%v", err)
}
