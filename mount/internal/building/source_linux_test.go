package building

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// TestSourceFileIsNoLink: an open symbolic link is refused.
func TestSourceFileIsNoLink(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(dir, name))
	fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	link := os.NewFile(uintptr(fd), name)
	defer func() { _ = link.Close() }()
	_, err = OpenSource(t.Context(), new(lookup.Resolver).WithoutLinks(), &spec.Spec{SourceFile: link})
	require.ErrorIs(t, err, unix.ELOOP)
}

// TestVerifySource: a tree that shows another file than the source is refused.
func TestVerifySource(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) int {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		fd, err := safepath.Open(t.Context(), unix.AT_FDCWD, filepath.Join(dir, name), 0)
		require.NoError(t, err)
		t.Cleanup(func() { kernel.Close(fd) })
		return fd
	}
	a, b := open("a"), open("b")
	id, err := kernel.Identify(a)
	require.NoError(t, err)
	require.NoError(t, (&Tree{FD: a}).verifySource(&Source{ID: id}))
	require.ErrorIs(t, (&Tree{FD: b}).verifySource(&Source{ID: id}), failure.ErrNotAsRequested)
}
