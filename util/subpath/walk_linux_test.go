package subpath

import (
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// walkIn returns a walk that creates missing directories.
func walkIn(t *testing.T, dir string) *walk {
	t.Helper()
	fd, err := unix.Open(dir, toLook, 0)
	require.NoError(t, err)
	root, err := statNode(fd)
	require.NoError(t, err)
	w := &walk{req: Request{Create: true}, mode: root.mode & 0o777, stack: []node{root}}
	t.Cleanup(w.close)
	return w
}

// TestNothingIsCreatedLate: after the end of ctx no directory is created and no mode set, also
// if the file system answers late.
func TestNothingIsCreatedLate(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/begun", unfinished))
	ctx, cancel := context.WithCancel(t.Context())
	w := walkIn(t, dir)
	cancel()
	for _, name := range []string{"new", "begun"} {
		_, err := w.enter(ctx, name)
		require.ErrorIs(t, err, context.Canceled, name)
	}
	require.NoDirExists(t, dir+"/new")
	info, err := os.Stat(dir + "/begun")
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm())
}

// TestRootSquash: on a server that maps root to an anonymous user, this user owns created directories.
func TestRootSquash(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	const nobody = 65534
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	require.NoError(t, os.Mkdir(dir+"/nobodys", unfinished)) // of another user, and not created by the walk
	require.NoError(t, os.Chown(dir+"/nobodys", nobody, nobody))
	w := walkIn(t, dir)
	runAs(t, nobody, func() {
		n, err := w.enter(t.Context(), "nobodys")
		require.NoError(t, err)
		n.close()
		for _, name := range []string{"made", "deeper"} {
			n, err := w.enter(t.Context(), name)
			require.NoError(t, err)
			w.stack = append(w.stack, n)
		}
	})
	for name, want := range map[string]os.FileMode{"nobodys": 0, "made": 0o777, "made/deeper": 0o777} {
		info, err := os.Stat(dir + "/" + name)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), name)
	}
}

// runAs calls do as another user to file systems (setfsuid).
func runAs(t *testing.T, user int, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.Setfsuid(user))
	defer func() { require.NoError(t, unix.Setfsuid(os.Geteuid())) }()
	do()
}
