package mountstate

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// withoutIDs is a mounter without mount IDs.
type withoutIDs struct{ mount.Interface }

// newKernel returns a kernel with a mount at the path "mounted" of a new directory, which has a
// path "plain", too.
func newKernel(t *testing.T) (kernel *mounttest.Fake, dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"mounted", "plain"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	kernel = mounttest.NewFake(mount.Config{})
	require.NoError(t, kernel.Mount(t.Context(), mount.Request{Source: "tmpfs", Target: dir + "/mounted", FSType: "tmpfs"}))
	return kernel, dir
}

// TestStateHasMountID: the state has the ID of the mount, and a path that is missing or no mount point has no
// mount.
func TestStateHasMountID(t *testing.T) {
	kernel, dir := newKernel(t)
	mounted, err := At(t.Context(), kernel, dir+"/mounted")
	require.NoError(t, err)
	require.NotZero(t, mounted.Mount)
	require.Equal(t, State{Path: dir + "/mounted", Mounted: true, Mount: mounted.Mount}, mounted)
	wrapped, err := At(t.Context(), testbed.Wrapped{Interface: kernel}, dir+"/mounted")
	require.NoError(t, err)
	require.Equal(t, mounted, wrapped)
	for _, name := range []string{"/plain", "/missing"} {
		state, err := At(t.Context(), kernel, dir+name)
		require.NoError(t, err)
		require.Equal(t, State{Path: dir + name}, state)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = At(ctx, kernel, dir+"/mounted")
	require.ErrorIs(t, err, context.Canceled)
}

// TestQueryWithoutIDs: a mounter without mount IDs still reports whether a path is a mount point.
func TestQueryWithoutIDs(t *testing.T) {
	kernel, dir := newKernel(t)
	for name, want := range map[string]bool{"/mounted": true, "/plain": false} {
		mounted, id, err := Query(t.Context(), withoutIDs{kernel}, dir+name)
		require.NoError(t, err)
		require.Equal(t, want, mounted)
		require.Zero(t, id)
	}
}

// TestBelowChangesWithMountsBelow: the number changes with each mount below the path, and with no other mount.
func TestBelowChangesWithMountsBelow(t *testing.T) {
	at := func(id int, path string) mount.Info { return mount.Info{ID: id, Mountpoint: path} }
	others := []mount.Info{at(1, "/"), at(2, "/a"), at(3, "/ab"), at(4, "/b/a/c")}
	require.Zero(t, Below(others, "/a"))
	one := Below(append(others, at(5, "/a/b")), "/a")
	require.NotZero(t, one)
	require.Equal(t, one, Below([]mount.Info{at(5, "/a/b")}, "/a"))
	require.NotEqual(t, one, Below([]mount.Info{at(6, "/a/b")}, "/a"), "another mount at the path")
	require.NotEqual(t, one, Below([]mount.Info{at(5, "/a/b"), at(6, "/a/b/c")}, "/a"), "one more")
}
