package atomicdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneathtest"
	"golang.org/x/sys/unix"
)

func TestWrite(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		dir := testbed.Dir(t)
		check := mounttest.NoLeaks(t)
		for n := range 4 {
			require.True(t, mustWrite(t, dir, generation(n), Options{}))
			require.False(t, mustWrite(t, dir, generation(n), Options{}))
		}
		require.True(t, mustWrite(t, dir, nil, Options{}))
		require.False(t, mustWrite(t, dir, nil, Options{}))
		require.Len(t, entries(t, dir), 2)
		check()
	})
}

// TestUnchanged: a set is rewritten if and only if a reader can see a difference.
func TestUnchanged(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		files := texts("a", "1", "d/b", "2", "empty", "")
		mustWrite(t, dir, files, Options{})
		before, gid := lstat(t, dir+"/..data"), os.Getegid()
		require.False(t, mustWrite(t, dir, texts("./a", "1", "d//b", "2", "empty", ""), Options{Mode: Perm(0o644), GID: &gid}))
		require.Equal(t, before.Ino, lstat(t, dir+"/..data").Ino)

		for what, change := range changesOfSet(dir) {
			require.NoError(t, change(), what)
			require.True(t, mustWrite(t, dir, files, Options{}), what)
			require.False(t, mustWrite(t, dir, files, Options{}), what)
		}
		require.True(t, mustWrite(t, dir, files, Options{Mode: Perm(0o600)}))
		require.True(t, mustWrite(t, dir, files, Options{Mode: Perm(0o600), DirMode: Perm(0o750)}))
		require.True(t, mustWrite(t, dir, texts("a", "1", "d/b", "2"), Options{Mode: Perm(0o600), DirMode: Perm(0o750)}))
	})
}

// changesOfSet returns changes by another process of a set with the files a, d/b and empty.
func changesOfSet(dir string) map[string]func() error {
	set := func() string {
		set, _ := os.Readlink(dir + "/..data")
		return dir + "/" + set
	}
	return map[string]func() error{
		"data":       func() error { return os.WriteFile(set()+"/a", []byte("3"), 0) },
		"more data":  func() error { return os.WriteFile(set()+"/a", []byte("11"), 0) },
		"less data":  func() error { return os.Truncate(set()+"/a", 0) },
		"not empty":  func() error { return os.WriteFile(set()+"/empty", []byte("1"), 0) },
		"mode":       func() error { return os.Chmod(set()+"/a", 0o600) },
		"setuid":     func() error { return os.Chmod(set()+"/a", fs.ModeSetuid|0o644) },
		"dir mode":   func() error { return os.Chmod(set()+"/d", 0o700) },
		"set's mode": func() error { return os.Chmod(set(), 0o777) },
		"missing":    func() error { return os.Remove(set() + "/d/b") },
		"added":      func() error { return os.WriteFile(set()+"/d/more", nil, 0o644) },
		"added dir":  func() error { return os.Mkdir(set()+"/more", 0o755) },
		"link": func() error {
			return errors.Join(os.Rename(set()+"/a", dir+"/elsewhere"), os.Symlink(dir+"/elsewhere", set()+"/a"))
		},
		"fifo":    func() error { return errors.Join(os.Remove(set()+"/empty"), unix.Mkfifo(set()+"/empty", 0o644)) },
		"no set":  func() error { return os.RemoveAll(set()) },
		"no link": func() error { return os.Remove(dir + "/..data") },
	}
}

// TestManyFiles: a set has more files than are synced in one batch.
func TestManyFiles(t *testing.T) {
	dir := testbed.Dir(t)
	files := map[string]File{}
	for n := range 2*batch + 3 {
		files[fmt.Sprintf("d%d/%d", n%3, n)] = File{Data: fmt.Append(nil, n)}
	}
	check := mounttest.NoLeaks(t)
	require.True(t, mustWrite(t, dir, files, Options{}))
	require.True(t, mustWrite(t, dir, nil, Options{}))
	left := batch + 5
	_, err := Write(endsAfter{t.Context(), &left}, dir, files, Options{})
	require.ErrorIs(t, err, context.Canceled)
	requireSet(t, dir, nil)
	check()
}

// TestModes: files have the modes of the set for any umask.
func TestModes(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	dir := testbed.Dir(t)
	files := map[string]File{"a": {}, "b": {Mode: Perm(0o400)}, "c/d": {Mode: Perm(0)}}
	mode := func(name string) fs.FileMode {
		info, err := os.Stat(dir + "/" + name)
		require.NoError(t, err)
		return info.Mode()
	}
	_, err := Write(t.Context(), dir, files, Options{})
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o644), mode("a"))
	require.Equal(t, fs.FileMode(0o400), mode("b"))
	require.Equal(t, fs.FileMode(0), mode("c/d"))
	require.Equal(t, fs.ModeDir|0o755, mode("c"))
	require.Equal(t, fs.ModeDir|0o755, mode("..data"))

	_, err = Write(t.Context(), dir, files, Options{Mode: Perm(0o440), DirMode: Perm(0o711)})
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o440), mode("a"))
	require.Equal(t, fs.FileMode(0o400), mode("b"))
	require.Equal(t, fs.ModeDir|0o711, mode("c"))
}

// TestOwners: files and directories have the owners of the set, and a file its own ones.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		mounttest.SkipWithout(t, "root", "only root gives files away")
	}
	dir := testbed.Dir(t)
	uid, other, gid := 1001, 1002, 1003
	files := map[string]File{"a": {}, "d/b": {UID: &other, Mode: Perm(0o600)}}
	o := Options{UID: &uid, GID: &gid}
	require.True(t, mustWrite(t, dir, files, o))
	require.False(t, mustWrite(t, dir, files, o))
	for name, want := range map[string][2]uint32{
		"..data/": {1001, 1003}, "..data/a": {1001, 1003}, "..data/d": {1001, 1003}, "..data/d/b": {1002, 1003},
	} {
		stat := lstat(t, dir+"/"+name)
		require.Equal(t, want, [2]uint32{stat.Uid, stat.Gid}, name)
	}
	require.NoError(t, os.Chown(dir+"/a", 0, 1003))
	require.True(t, mustWrite(t, dir, files, o))
	gid++
	require.True(t, mustWrite(t, dir, files, o))

	// Owners that are not in the options are the process's own, also in a set-group-ID directory.
	require.NoError(t, os.Chown(dir, 0, gid))
	require.NoError(t, os.Chmod(dir, fs.ModeSetgid|0o755))
	for _, o := range []Options{{GID: &gid}, {}, {UID: &uid}, {}} {
		require.True(t, mustWrite(t, dir, files, o))
		require.False(t, mustWrite(t, dir, files, o))
		stat := lstat(t, dir+"/..data/a")
		require.EqualValues(t, or(o.UID, os.Geteuid()), stat.Uid)
		require.EqualValues(t, or(o.GID, os.Getegid()), stat.Gid)
	}
}

// TestSetOfKubelet: the directories of a set with set-group-ID, as a kubelet writes it for a pod
// with a group, count as unchanged. Another bit does not.
func TestSetOfKubelet(t *testing.T) {
	dir := testbed.Dir(t)
	files := map[string]File{"a": {}, "d/b": {}}
	mustWrite(t, dir, files, Options{})
	for _, set := range []string{dir + "/..data/d", dir + "/..data/"} {
		require.NoError(t, os.Chmod(set, fs.ModeSetgid|0o755))
		require.False(t, mustWrite(t, dir, files, Options{}))
	}
	require.NoError(t, os.Chmod(dir+"/..data/d", fs.ModeSticky|0o755))
	require.True(t, mustWrite(t, dir, files, Options{}))
}

// TestOthersFilesStay: entries that are not at names of the set stay.
func TestOthersFilesStay(t *testing.T) {
	dir := testbed.Dir(t)
	mustWrite(t, dir, generation(1), Options{})
	for _, name := range []string{"mine", "..mine", "..2006_01_02", "..data2"} {
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(name), 0o600))
	}
	require.NoError(t, os.Mkdir(dir+"/dir", 0o700))
	require.NoError(t, os.Symlink("..data/other", dir+"/link"))
	require.NoError(t, os.Symlink("..data/stale", dir+"/stale"))
	_, err := Write(t.Context(), dir, generation(2), Options{})
	require.NoError(t, err)
	for _, name := range []string{"mine", "..mine", "..2006_01_02", "..data2", "dir", "link"} {
		lstat(t, dir+"/"+name)
	}
	_, err = os.Lstat(dir + "/stale")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestHostileDirectory: the set is written over any entries in its way, and the targets of
// links stay unchanged.
func TestHostileDirectory(t *testing.T) {
	const old = "..2001_01_01_01_01_01.1"
	beneathtest.OnEachKernel(t, func(t *testing.T, temp string) {
		for what, prepare := range map[string]func(dir, outside string) error{
			"data link":           func(dir, outside string) error { return os.Symlink(outside, dir+"/..data") },
			"relative data link":  func(dir, _ string) error { return os.Symlink("../outside", dir+"/..data") },
			"data link to itself": func(dir, _ string) error { return os.Symlink("..data", dir+"/..data") },
			"data directory":      func(dir, _ string) error { return os.MkdirAll(dir+"/..data/a/b", 0o755) },
			"data file":           func(dir, _ string) error { return os.WriteFile(dir+"/..data", nil, 0o644) },
			"set is a link": func(dir, outside string) error {
				return errors.Join(os.Symlink(outside, dir+"/"+old), os.Symlink(old, dir+"/..data"))
			},
			"old set is a link":  func(dir, outside string) error { return os.Symlink(outside, dir+"/"+old) },
			"old set has a link": func(dir, outside string) error { return mkLink(dir+"/"+old+"/d", outside) },
			"old set is a file":  func(dir, _ string) error { return os.WriteFile(dir+"/"+old, nil, 0) },
			"temporary link":     func(dir, outside string) error { return os.Symlink(outside, dir+"/..data_tmp") },
			"temporary dir":      func(dir, outside string) error { return mkLink(dir+"/..data_tmp/x", outside) },
			"other temporary":    func(dir, outside string) error { return mkLink(dir+"/..link_tmp/x", outside) },
			"name is a link":     func(dir, outside string) error { return os.Symlink(outside+"/canary", dir+"/a") },
			"name is a file":     func(dir, _ string) error { return os.WriteFile(dir+"/a", nil, 0) },
			"name is a dir":      func(dir, outside string) error { return mkLink(dir+"/d/e", outside) },
			"name has lost+found": func(dir, _ string) error {
				return os.MkdirAll(dir+"/a/lost+found/x", 0o755)
			},
			"set in set": func(dir, outside string) error {
				return errors.Join(mkLink(dir+"/"+old+"/d", outside), os.Symlink(old, dir+"/..data"), os.Symlink("..data/d", dir+"/d"))
			},
		} {
			dir, outside := temp+"/dir", temp+"/outside"
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.RemoveAll(outside))
			require.NoError(t, os.MkdirAll(outside+"/b", 0o755))
			require.NoError(t, os.Mkdir(dir, 0o755))
			require.NoError(t, os.WriteFile(outside+"/canary", []byte("precious"), 0o640))
			before := lstat(t, outside)
			require.NoError(t, prepare(dir, outside), what)
			require.True(t, mustWrite(t, dir, generation(1), Options{}), what)
			require.False(t, mustWrite(t, dir, generation(1), Options{}), what)
			require.Equal(t, before, lstat(t, outside), what)
			data, err := os.ReadFile(outside + "/canary")
			require.NoError(t, err, what)
			require.Equal(t, "precious", string(data), what)
			require.Equal(t, []string{"b", "canary"}, entries(t, outside), what)
		}
	})
}

// mkLink creates a link in a new directory.
func mkLink(dir, to string) error {
	return errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(to, dir+"/link"))
}

// TestTheDirectoryItself: a directory whose path has a symbolic link is refused.
func TestTheDirectoryItself(t *testing.T) {
	temp := testbed.Dir(t)
	require.NoError(t, os.MkdirAll(temp+"/real/dir", 0o755))
	require.NoError(t, os.Symlink("real", temp+"/link"))
	require.NoError(t, os.WriteFile(temp+"/file", nil, 0o644))
	for name, want := range map[string]error{
		"/link/dir": unix.ENOTDIR, "/link": unix.ENOTDIR, "/file": unix.ENOTDIR, "/none": fs.ErrNotExist,
	} {
		changed, err := Write(t.Context(), temp+name, generation(1), Options{})
		var at *fs.PathError
		require.ErrorAs(t, err, &at, name)
		require.ErrorIs(t, err, want, name)
		require.False(t, changed)
	}
	require.Empty(t, entries(t, temp+"/real/dir"))
}

// TestRightOwnersStay: on a server that forbids chown Write succeeds if the owners are right
// already.
func TestRightOwnersStay(t *testing.T) {
	dir := testbed.Dir(t)
	require.NoError(t, os.Chmod(dir, 0o755)) // without set-group-ID
	require.NoError(t, os.Chown(dir, os.Geteuid(), os.Getegid()))
	fchown = func(int, int, int) error { return unix.EPERM }
	t.Cleanup(func() { fchown = unix.Fchown })
	changed, err := Write(t.Context(), dir, generation(1), Options{})
	require.NoError(t, err)
	require.True(t, changed)

	another := os.Geteuid() + 1
	_, err = Write(t.Context(), dir, generation(2), Options{UID: &another})
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorContains(t, err, "requires CAP_CHOWN")
	changed, err = Write(t.Context(), dir, generation(1), Options{})
	require.NoError(t, err)
	require.False(t, changed, "the old set is still there")
}

// TestFailedWriteKeepsOldSet: a failed Write leaves the old set, and nothing else.
func TestFailedWriteKeepsOldSet(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,nr_inodes=40"))
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		mustWrite(t, dir, generation(1), Options{})
		big := generation(2)
		big["big"] = File{Data: []byte(strings.Repeat("secret", 1<<16))}
		many := generation(2)
		for n := range 100 {
			many[fmt.Sprint("file-", n)] = File{}
		}
		for what, files := range map[string]map[string]File{"no space": big, "no inodes": many} {
			changed, err := Write(t.Context(), dir, files, Options{})
			require.ErrorIs(t, err, unix.ENOSPC, what)
			require.NotContains(t, err.Error(), "secret")
			require.False(t, changed, what)
			requireSet(t, dir, generation(1))
		}
		requireFullDisk(t, dir)
		unmapped := 4242
		_, err := Write(t.Context(), dir, generation(2), Options{GID: &unmapped})
		require.ErrorIs(t, err, unix.EINVAL, "a group that the namespace lacks")
		requireSet(t, dir, generation(1))
	})
}

// requireFullDisk expects ENOSPC for each number of inodes that is too small.
func requireFullDisk(t *testing.T, dir string) {
	t.Helper()
	for free := range 40 {
		var s unix.Statfs_t
		require.NoError(t, unix.Statfs(dir, &s))
		limit := fmt.Sprintf("nr_inodes=%d", int(s.Files-s.Ffree)+free)
		require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, limit))
		_, err := Write(t.Context(), dir, generation(2), Options{})
		if err == nil {
			require.Greater(t, free, 2, "a set, its files and links")
			require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "nr_inodes=40"))
			mustWrite(t, dir, generation(1), Options{})
			return
		}
		require.ErrorIs(t, err, unix.ENOSPC)
		require.NotErrorIs(t, err, errInterfered)
	}
	require.Fail(t, "it never fits")
}

// TestLeftovers: leftovers that cannot be removed do not prevent a new set.
func TestLeftovers(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		mustWrite(t, dir, generation(1), Options{})
		old, err := os.Readlink(dir + "/..data")
		require.NoError(t, err)
		mounted := dir + "/" + old + "/d"
		require.NoError(t, unix.Mount("tmpfs", mounted, "tmpfs", 0, ""))
		require.NoError(t, os.WriteFile(mounted+"/canary", []byte("precious"), 0o600))

		for i := range 2 {
			changed, err := Write(t.Context(), dir, generation(2), Options{})
			var left *LeftoverError
			require.ErrorAs(t, err, &left)
			require.Equal(t, []string{old}, left.Names)
			require.Equal(t, i == 0, changed)
			require.FileExists(t, mounted+"/canary")
			require.Equal(t, "generation 2", must(os.ReadFile(dir+"/d/b"))(t))
		}
		require.NoError(t, unix.Unmount(mounted, 0))
		require.False(t, mustWrite(t, dir, generation(2), Options{}))
	})
}

// TestMountedSetIsLeft: a set on which a file system is mounted is replaced, and stays as a leftover.
func TestMountedSetIsLeft(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		mustWrite(t, dir, generation(1), Options{})
		old, err := os.Readlink(dir + "/..data")
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(dir+"/mine/d/e", 0o755))
		require.NoError(t, unix.Mount(dir+"/"+old, dir+"/"+old, "", unix.MS_BIND, ""))
		changed, err := Write(t.Context(), dir, generation(1), Options{})
		var left *LeftoverError
		require.ErrorAs(t, err, &left)
		require.True(t, changed)
		require.NoError(t, unix.Unmount(dir+"/"+old, 0))
		require.False(t, mustWrite(t, dir, generation(1), Options{}))
	})
}

func must(data []byte, err error) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		require.NoError(t, err)
		return string(data)
	}
}

// endsAfter is a context that ends at the n-th call of Err.
type endsAfter struct {
	context.Context
	n *int
}

func (c endsAfter) Err() error {
	if *c.n--; *c.n < 0 {
		return context.Canceled
	}
	return nil
}

// TestEndedMeanwhile: whenever the context ends the directory has a whole set, and the next
// Write completes the new one.
func TestEndedMeanwhile(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	for n := 0; ; n++ {
		mustWrite(t, dir, generation(1), Options{})
		left := n
		changed, err := Write(endsAfter{t.Context(), &left}, dir, generation(2), Options{})
		if err == nil {
			require.True(t, changed)
			require.Greater(t, n, 5)
			return
		}
		if !changed {
			requireSet(t, dir, generation(1))
			continue
		}
		var leftover *LeftoverError
		require.ErrorAs(t, err, &leftover)
		require.False(t, mustWrite(t, dir, generation(2), Options{}))
	}
}
