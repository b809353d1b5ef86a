package unmounting_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/unmounting"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// mountHiding mounts a tree at a new directory in which the order of the mount table is not
// that of unmounting: the mount that hides another one was attached first, and moved.
func mountHiding(t *testing.T) (top string) {
	t.Helper()
	dir := newDir(t, "top", "aside")
	top = dir + "/top"
	mountTmpfs(t, "aside", dir+"/aside")
	require.NoError(t, unix.Mount("", dir+"/aside", "", unix.MS_PRIVATE, ""))
	mountTmpfs(t, "first", dir+"/aside")
	mountTmpfs(t, "top", top)
	require.NoError(t, unix.Mount("", top, "", unix.MS_PRIVATE, ""))
	require.NoError(t, os.MkdirAll(top+"/hiding/hidden", 0o755))
	mountTmpfs(t, "hidden", top+"/hiding/hidden")
	require.NoError(t, unix.Mount(dir+"/aside", top+"/hiding", "", unix.MS_MOVE, ""))
	return top
}

// TestUnmountTreeRereadsTable: after mounts were hidden the table is read again, and its error
// is not mistaken for a missing mount.
func TestUnmountTreeRereadsTable(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	top := mountHiding(t)
	table, umount2 := mountinfo.Path, unmounting.Umount2
	defer func() { mountinfo.Path, unmounting.Umount2 = table, umount2 }()
	unmounting.Umount2 = func(path string, flags int) error {
		mountinfo.Path = "/proc/thread-self/missing"
		return umount2(path, flags)
	}
	err := newUnmounter().UnmountTree(t.Context(), top)
	require.ErrorIs(t, err, fs.ErrNotExist)
	requireMounted(t, top)
	mountinfo.Path, unmounting.Umount2 = table, umount2
	require.NoError(t, newUnmounter().UnmountTree(t.Context(), top))
	requireUnmounted(t, top)
}
