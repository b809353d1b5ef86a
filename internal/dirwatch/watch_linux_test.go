package dirwatch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/dirwatch"
)

// TestRemovedNames: a change has the names of the entries that have left the directory, also of one
// whose name exists again.
func TestRemovedNames(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, os.WriteFile(at(name), nil, 0o600))
	}
	ctx, cancel := context.WithCancel(t.Context())
	removed, ended := make(chan []string, 100), make(chan error, 1)
	go func() { ended <- dirwatch.Watch(ctx, dir, func(names []string) { removed <- names }) }()
	require.Empty(t, <-removed, "the first call")
	require.NoError(t, os.Remove(at("a")))
	require.NoError(t, os.WriteFile(at("a"), nil, 0o600))
	require.NoError(t, os.Rename(at("b"), at("c")))
	var got []string
	for len(got) < 2 {
		got = append(got, <-removed...)
	}
	require.Equal(t, []string{"a", "b"}, got)
	cancel()
	require.ErrorIs(t, <-ended, os.ErrClosed)
}

// TestChangesBesideDirectoryAreIgnored: changes next to the directory are ignored.
func TestChangesBesideDirectoryAreIgnored(t *testing.T) {
	base := t.TempDir()
	dir, other := filepath.Join(base, "dir"), filepath.Join(base, "other")
	require.NoError(t, os.Mkdir(dir, 0o755))
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- dirwatch.Watch(ctx, dir, func([]string) { changes <- struct{}{} }) }()
	<-changes
	for range 10 {
		require.NoError(t, errors.Join(os.Mkdir(other, 0o755), os.Chmod(other, 0o700), os.Remove(other)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	<-changes
	require.Empty(t, changes)
	cancel()
	require.ErrorIs(t, <-ended, os.ErrClosed)
}

// TestLinkLoopIsRefused: a loop of links, or a missing path, cannot be watched.
func TestLinkLoopIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "loop")
	require.NoError(t, os.Symlink("loop", name))
	require.ErrorIs(t, dirwatch.Watch(t.Context(), name, func([]string) {}), unix.ELOOP)
	require.ErrorIs(t, dirwatch.Watch(t.Context(), name+"-missing", func([]string) {}), os.ErrNotExist)
}
