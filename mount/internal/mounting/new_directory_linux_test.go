package mounting

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/building"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/mount/internal/table"
	"github.com/volumekit/volumekit/util/keylock"
	"golang.org/x/sys/unix"
)

// newMaker returns a maker with a cache of the mount table.
func newMaker() *Maker {
	return New(Config{
		Builder: new(building.Builder), Resolver: new(lookup.Resolver), Kinds: new(record.Kinds),
		Locks: new(keylock.Map), Cache: new(table.Cache),
	})
}

// newTmpfs mounts a tmpfs with directories.
func newTmpfs(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	for _, name := range names {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	return dir
}

// newBind returns an arrival of a bind mount at a new directory, in a tmpfs. It is not ok on
// kernels without unique mount IDs.
func newBind(t *testing.T) (a *arrival, made *newDirectories, ok bool) {
	t.Helper()
	if !inNamespace(t) || !record.ReportsParents() {
		return nil, nil, false
	}
	dir := newTmpfs(t, "source", "pods")
	require.NoError(t, os.WriteFile(dir+"/source/file", nil, 0o600))
	a = &arrival{maker: newMaker(), target: noTarget, spec: &spec.Spec{Source: dir + "/source", Target: dir + "/pods/target"}}
	t.Cleanup(a.close)
	err := error(unix.EAGAIN)
	for tries := 0; kernel.IsUncached(err) && tries < 1000; tries++ { // mounts of other processes make a cached lookup fail
		made = newDirectoriesAt(-1, false)
		err = a.maker.createTarget(made, a.spec.Target, NewDirectory{Perm: 0o750})
	}
	require.NoError(t, err)
	a.target = made.target()
	return a, made, true
}

// TestBindNewRevertsForOtherMount: if another process mounts at the new directory in the same
// instant, the arrival is reverted, and the other mount and the directory stay.
func TestBindNewRevertsForOtherMount(t *testing.T) {
	a, made, ok := newBind(t)
	if !ok {
		return
	}
	at := a.spec.Target
	require.NoError(t, unix.Mount("other", at, "tmpfs", 0, ""))
	err := a.bindNew(t.Context())
	require.ErrorIs(t, err, errOvertaken)
	require.NoError(t, made.remove(err))
	require.NoFileExists(t, at+"/file")
	require.NoError(t, unix.Unmount(at, 0))
	require.ErrorIs(t, unix.Unmount(at, 0), unix.EINVAL, "no other mount is left")
	require.NoError(t, os.Remove(at))
}

// TestBindNewInRemovedDirectory: a new directory that another process removes is no error of
// the removal.
func TestBindNewInRemovedDirectory(t *testing.T) {
	a, made, ok := newBind(t)
	if !ok {
		return
	}
	require.NoError(t, os.Remove(a.spec.Target))
	err := a.bindNew(t.Context())
	require.ErrorIs(t, err, unix.ENOENT)
	require.NoError(t, made.remove(err))
}

// TestAttachNewEndsWithContext: if ctx has ended when the directory was created, nothing is
// attached.
func TestAttachNewEndsWithContext(t *testing.T) {
	a, _, ok := newBind(t)
	if !ok {
		return
	}
	require.NoError(t, a.openSource(t.Context()))
	require.NoError(t, a.build(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, a.attachNew(ended), context.Canceled)
	require.NoFileExists(t, a.spec.Target+"/file")
	require.NoError(t, a.attachNew(t.Context()))
	require.FileExists(t, a.spec.Target+"/file")
	require.ErrorIs(t, unix.Unmount(a.spec.Target, 0), unix.EBUSY, "the descriptor of the tree keeps the mount busy")
}
