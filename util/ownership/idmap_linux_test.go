package ownership

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestMapped: the package doc's claims about mapped IDs. Volumes whose files have one group
// on disk are shown to another group without access to the files.
func TestMapped(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	testbed.Fill(t, dir, "disk/d/file", "pod/")
	_, err := Apply(t.Context(), dir+"/disk", Options{Group: id(0)})
	require.NoError(t, err)

	m := mount.New(mount.Config{})
	defer func() { _ = m.Close() }()
	err = m.Mount(t.Context(), mount.Request{Source: dir + "/disk", Target: dir + "/pod", IDMap: mount.SwapGroups(0, 7)})
	if errors.Is(err, errors.ErrUnsupported) {
		mounttest.SkipWithout(t, "idmap", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir+"/pod", 0)) })
	require.Equal(t, map[string]string{"": "0:7 42775", "/d": "0:7 42775", "/d/file": "0:7 100660"}, describeEntries(t, dir+"/pod"))
	require.NoError(t, os.WriteFile(dir+"/pod/d/new", nil, 0o600))
	require.Equal(t, "0:0 100600", describeEntry(t, dir+"/disk/d/new"))
	require.Equal(t, "0:7 100600", describeEntry(t, dir+"/pod/d/new"))
}
