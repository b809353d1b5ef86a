package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSourceFileIsNoLink: an open symbolic link is refused like one on the way.
func TestSourceFileIsNoLink(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(dir, name))
	fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	link := os.NewFile(uintptr(fd), name)
	defer func() { _ = link.Close() }()
	m := New(Config{})
	_, err = m.openSource(t.Context(), Request{SourceFile: link})
	require.ErrorIs(t, err, unix.ELOOP)
}
