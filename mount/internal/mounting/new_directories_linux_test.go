package mounting

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"golang.org/x/sys/unix"
)

// TestIsBelow: no path is strictly below itself, also not "/".
func TestIsBelow(t *testing.T) {
	for _, test := range []struct {
		name, dir string
		want      bool
	}{
		{"/a/b", "/a", true},
		{"/a/b", "/a/", true},
		{"/a/b/c", "/a", true},
		{"/a", "/", true},
		{"/a", "/a", false},
		{"/a", "/a/", false},
		{"/", "/", false},
		{"/", "", false},
		{"/a", "", false},
		{"/a", ".", false},
		{"/ab", "/a", false},
		{"/a", "/a/b", false},
	} {
		require.Equal(t, test.want, isBelow(test.name, test.dir), "%+v", test)
	}
}

// TestCreateBesideOthers: another process may create a parent at the same time, or put something
// else in its place.
func TestCreateBesideOthers(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, test := range map[string]struct {
		plant   func(at string) error
		want    error
		created int
	}{
		"parent is missing":   {func(string) error { return nil }, nil, 3},
		"parent exists":       {func(at string) error { return os.Mkdir(at+"/one", 0o700) }, nil, 2},
		"parents exist":       {func(at string) error { return os.MkdirAll(at+"/one/two", 0o700) }, nil, 1},
		"target exists":       {func(at string) error { return os.MkdirAll(at+"/one/two/new", 0o700) }, unix.EEXIST, 0},
		"parent is a file":    {func(at string) error { return os.WriteFile(at+"/one", nil, 0o600) }, unix.ENOTDIR, 0},
		"parent is a link":    {func(at string) error { return os.Symlink("other", at+"/one") }, unix.ELOOP, 0},
		"parent is a mount":   {func(at string) error { return mountTmpfs(at + "/one") }, unix.EXDEV, 0},
		"parent's is a mount": {func(at string) error { return mountTmpfs(at + "/one/two") }, unix.EXDEV, 0},
	} {
		dir := newTmpfs(t, "other")
		require.NoError(t, test.plant(dir), name)
		before := entriesOf(t, dir)
		made := newDirsIn(t, dir, "one", "two", "new")
		err := made.create(0o750)
		require.Equal(t, test.created, made.created, name)
		if test.want == nil {
			require.NoError(t, err, name)
			require.DirExists(t, dir+"/one/two/new", name)
		} else {
			require.ErrorIs(t, err, test.want, name)
		}
		require.NoError(t, made.remove(errors.New("the bind failed")), name)
		require.Equal(t, before, entriesOf(t, dir), name)
		made.close()
	}
}

// TestCreateDoesNotWait: without permission to wait no automount is triggered. A mount looks like one.
func TestCreateDoesNotWait(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := newTmpfs(t)
	require.NoError(t, mountTmpfs(dir+"/one/two"))
	before := entriesOf(t, dir)
	made := newDirsIn(t, dir, "one", "two", "new")
	made.mayWait = false
	err := made.create(0o750)
	require.ErrorIs(t, err, failure.ErrWouldWait)
	require.NoError(t, made.remove(err))
	require.Equal(t, before, entriesOf(t, dir))
	made.close()
}

// TestCreateFails: the parents that were created before an error are removed.
func TestCreateFails(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	long := strings.Repeat("x", 256)
	for _, names := range [][]string{{long}, {"one", long}, {"one", long, "new"}, {"one", "two", long}} {
		dir := newTmpfs(t)
		made := newDirsIn(t, dir, names...)
		err := made.create(0o750)
		require.ErrorIs(t, err, unix.ENAMETOOLONG)
		require.NoError(t, made.remove(err))
		require.Empty(t, entriesOf(t, dir))
		made.close()
	}
}

// TestRemoveWithoutDescriptors: new directories are removed if the process has no descriptor left,
// also one that it could not open.
func TestRemoveWithoutDescriptors(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for left := range 3 {
		dir := newTmpfs(t)
		made := newDirsIn(t, dir, "one", "two", "new")
		var before unix.Rlimit
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
		next, err := unix.Dup(made.existing)
		require.NoError(t, err)
		require.NoError(t, unix.Close(next))
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next + left), Max: before.Max}))
		err = made.create(0o750)
		var fill []int
		for fd, err := unix.Dup(made.existing); err == nil; fd, err = unix.Dup(made.existing) {
			fill = append(fill, fd)
		}
		removeErr := made.remove(errors.Join(err, errors.New("the bind failed")))
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
		for _, fd := range fill {
			require.NoError(t, unix.Close(fd))
		}
		if left < 2 { // one for each parent, while the one above is open
			require.ErrorIs(t, err, unix.EMFILE)
		}
		require.NoError(t, removeErr)
		require.Empty(t, entriesOf(t, dir))
		made.close()
	}
}

// TestRemoveBesideOthers: the new directories are removed, except those that another process uses.
func TestRemoveBesideOthers(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, test := range map[string]struct {
		plant func(at string) error
		left  []string
	}{
		"target is used":      {func(at string) error { return os.Mkdir(at+"/one/two/new/x", 0o700) }, []string{"one", "one/two", "one/two/new", "one/two/new/x"}},
		"target is a mount":   {func(at string) error { return mountTmpfs(at + "/one/two/new") }, []string{"one", "one/two", "one/two/new"}},
		"target is a file":    {func(at string) error { return replaceByFile(at + "/one/two/new") }, []string{"one", "one/two", "one/two/new"}},
		"parent is used":      {func(at string) error { return os.Mkdir(at+"/one/x", 0o700) }, []string{"one", "one/x"}},
		"parent is covered":   {func(at string) error { return mountTmpfs(at + "/one") }, []string{"one"}},
		"parent is a link":    {func(at string) error { return replaceByLink(at+"/one", "away") }, []string{"away", "away/two", "one"}},
		"target is removed":   {func(at string) error { return os.Remove(at + "/one/two/new") }, nil},
		"parents are removed": {func(at string) error { return os.RemoveAll(at + "/one") }, nil},
	} {
		dir := newTmpfs(t)
		made := newDirsIn(t, dir, "one", "two", "new")
		made.mayWait = false
		require.NoError(t, made.create(0o750), name)
		require.NoError(t, test.plant(dir), name)
		require.NoError(t, made.remove(errors.New("the bind failed")), name)
		require.Equal(t, test.left, entriesOf(t, dir), name)
		made.close()
	}
}

// TestRemoveKeepsMounted: a directory that may have the mount is not removed.
func TestRemoveKeepsMounted(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := newTmpfs(t)
	made := newDirsIn(t, dir, "one", "new")
	defer made.close()
	require.NoError(t, made.create(0o750))
	uncertain := failure.AsUncertain(errors.New("x"))
	require.Equal(t, uncertain, made.remove(uncertain))
	require.DirExists(t, dir+"/one/new")
}

// newDirsIn returns directories to create in dir.
func newDirsIn(t *testing.T, dir string, names ...string) *newDirectories {
	t.Helper()
	existing, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	made := newDirectoriesAt(existing, true)
	made.names = names
	return made
}

// entriesOf returns the relative paths of the entries below a directory.
func entriesOf(t *testing.T, dir string) (entries []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if name != dir {
			entries = append(entries, strings.TrimPrefix(name, dir+"/"))
		}
		return err
	}))
	return entries
}

func mountTmpfs(at string) error {
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	return unix.Mount("tmpfs", at, "tmpfs", 0, "")
}

// replaceByLink renames a directory, and puts a link to it in its place.
func replaceByLink(name, renamed string) error {
	if err := os.Rename(name, filepath.Join(filepath.Dir(name), renamed)); err != nil {
		return err
	}
	return os.Symlink(renamed, name)
}

func replaceByFile(name string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return os.WriteFile(name, nil, 0o600)
}
