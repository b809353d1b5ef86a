package mount

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

func TestVerifyStatus(t *testing.T) {
	for _, test := range []struct {
		name    string
		status  mountStatus
		options Options
		ok      bool
	}{
		{"nothing asked", mountStatus{flags: ReadOnly | NoAtime, superReadOnly: true}, Options{}, true},
		{"as asked", mountStatus{flags: ReadOnly | NoSUID}, Options{Set: ReadOnly | NoSUID, Clear: NoExec}, true},
		{"a flag is missing", mountStatus{flags: NoSUID}, Options{Set: ReadOnly | NoSUID}, false},
		{"a flag too many", mountStatus{flags: NoExec}, Options{Clear: NoExec}, false},
		{"writable on a read-only file system", mountStatus{superReadOnly: true}, Options{Clear: ReadOnly}, false},
	} {
		err := test.status.verify(test.options)
		if test.ok {
			require.NoError(t, err, test.name)
		} else {
			require.ErrorIs(t, err, ErrNotAsRequested, test.name)
		}
	}
}

// TestVerifyTree: a tree that shows something else than the source is found out
// before it is attached.
func TestVerifyTree(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) int {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		fd, err := safepath.Open(unix.AT_FDCWD, filepath.Join(dir, name), 0)
		require.NoError(t, err)
		t.Cleanup(func() { closeFD(fd) })
		return fd
	}
	a, b := open("a"), open("b")
	id, err := identify(a)
	require.NoError(t, err)
	require.NoError(t, verifyTree(&tree{fd: a}, &source{id: id}))
	require.ErrorIs(t, verifyTree(&tree{fd: b}, &source{id: id}), ErrNotAsRequested)
	require.NoError(t, verifyTree(&tree{fd: b}, nil), "a file system has no source to compare")
}

// TestVerifyByLookup is what kernels before 6.8 do after attaching.
func TestVerifyByLookup(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/target", 0o755))
	before, err := New(Config{}).openTarget(t.Context(), dir+"/target")
	require.NoError(t, err)
	defer before.close()
	at, err := safepath.Open(unix.AT_FDCWD, dir, 0)
	require.NoError(t, err)
	defer closeFD(at)
	require.NoError(t, New(Config{}).Mount(t.Context(), Request{Target: dir + "/target", FSType: "tmpfs", Options: []string{"ro"}}))
	mounted, err := New(Config{}).openTarget(t.Context(), dir+"/target")
	require.NoError(t, err)
	require.True(t, mounted.mounted)

	require.NoError(t, verifyByLookup(&tree{fd: mounted.fd}, before, Options{}))
	require.ErrorIs(t, verifyByLookup(&tree{fd: mounted.fd}, before, Options{Clear: ReadOnly}), ErrNotAsRequested)
	mounted.close()
	require.NoError(t, New(Config{}).Unmount(t.Context(), dir+"/target"))
	root, err := safepath.Open(unix.AT_FDCWD, "/proc", 0)
	require.NoError(t, err)
	defer closeFD(root)
	require.ErrorIs(t, verifyByLookup(&tree{fd: root}, before, Options{}), ErrNotAsRequested, "the target leads nowhere")
}

// TestStatusWithoutStatmount: the table says the same as statmount.
func TestStatusWithoutStatmount(t *testing.T) {
	for _, path := range []string{"/", "/proc", "/sys", "/dev"} {
		fd, err := safepath.Open(unix.AT_FDCWD, path, 0)
		require.NoError(t, err)
		status, err := statMount(fd)
		if err != nil {
			closeFD(fd)
			return // this kernel has no statmount to compare with
		}
		info, err := tableEntry(fd)
		require.NoError(t, err)
		closeFD(fd)
		require.Equal(t, info.Flags.String(), status.flags.String(), path)
		require.Equal(t, uint64(info.Parent), status.parent, path)
		require.Equal(t, info.SuperOptions[0] == "ro", status.superReadOnly, path)
	}
}

// TestLockOfStage: a lock that a sweep has removed is no lock, and an area whose
// process lives is not swept.
func TestLockOfStage(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockNew(dir)
	require.NoError(t, err)
	require.True(t, stillThere(lock))
	sweepDir(dir)
	require.FileExists(t, lock.Name(), "somebody holds it")
	require.NoError(t, os.Remove(lock.Name()))
	require.False(t, stillThere(lock))
	require.NoError(t, lock.Close())

	require.NoError(t, os.WriteFile(dir+"/left"+lockSuffix, nil, 0o600))
	require.NoError(t, os.Mkdir(dir+"/left", 0o700))
	sweepDir(dir)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestOwnDirOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		return // nobody else's can be made
	}
	dir := t.TempDir() + "/staging"
	require.NoError(t, ownDir(dir))
	require.NoError(t, os.Chown(dir, 65534, -1))
	require.ErrorIs(t, ownDir(dir), unix.EPERM)
	var input *InputError
	require.ErrorAs(t, ownDir("relative"), &input)
}

// TestUmountWithoutProc: a mount that cannot be unmounted for want of /proc is
// not said to be missing.
func TestUmountWithoutProc(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/target", 0o755))
	m := New(Config{})
	require.NoError(t, m.Mount(t.Context(), Request{Target: dir + "/target", FSType: "tmpfs"}))
	require.NoError(t, unix.Mount("tmpfs", "/proc", "tmpfs", 0, ""))
	for name, call := range map[string]func() error{
		"unmount":      func() error { return m.Unmount(t.Context(), dir+"/target") },
		"unmount tree": func() error { return m.UnmountTree(t.Context(), dir+"/target") },
		"refs":         func() error { _, err := m.MountRefs(t.Context(), dir+"/target"); return err },
		"resolve":      func() error { _, err := m.Resolve(t.Context(), dir+"/target"); return err },
		"list":         func() error { _, err := m.List(t.Context()); return err },
		"follow links": func() error { _, err := m.FollowLinks(t.Context(), dir+"/target"); return err },
	} {
		err := call()
		require.ErrorContains(t, err, "/proc", name)
		require.NotErrorIs(t, err, os.ErrNotExist, name)
		require.ErrorIs(t, err, errors.ErrUnsupported, name)
	}
	for _, tier := range Tiers() {
		classic := New(Config{Tier: tier, StagingDir: dir + "/staging"})
		if err := classic.Mount(t.Context(), Request{Source: dir, Target: dir + "/target", Stack: true}); err != nil {
			require.NotErrorIs(t, err, os.ErrNotExist, tier)
			continue
		}
		require.NoError(t, unix.Unmount(dir+"/target", 0))
	}
	require.NoError(t, unix.Unmount("/proc", 0))
	require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
}
