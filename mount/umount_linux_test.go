package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// TestUmountFollowsNoLink: should a link take the place of a mount point after
// the look at it, what it leads to stays mounted.
func TestUmountFollowsNoLink(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	target := dir + "/target"
	require.NoError(t, os.Mkdir(target, 0o755))
	require.NoError(t, os.Symlink(target, dir+"/link"))
	m := New(Config{})
	require.NoError(t, m.Mount(t.Context(), Request{Target: target, FSType: "tmpfs"}))
	parent, err := safepath.Open(unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	require.NoError(t, err)
	defer closeFD(parent)
	require.ErrorIs(t, umountAt(parent, "link", 0), unix.EINVAL, "it is no mount point")
	is, err := isMountPoint(target)
	require.NoError(t, err)
	require.True(t, is)
	require.NoError(t, m.Unmount(t.Context(), target))
}
