package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestUndoLeavesPeers: what a shared tree has inside, its peers have, too, and keep.
func TestUndoLeavesPeers(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	source, inner := dir+"/source", dir+"/source/inner"
	require.NoError(t, os.Mkdir(dir+"/target", 0o755))
	for _, at := range []string{source, inner} {
		require.NoError(t, os.Mkdir(at, 0o755))
		require.NoError(t, unix.Mount("x", at, "tmpfs", 0, ""))
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		require.NoError(t, unix.Mount("", at, "", unix.MS_SHARED, ""))
	}
	require.NoError(t, os.WriteFile(inner+"/file", nil, 0o600))
	for _, tier := range Tiers() {
		m := New(Config{Tier: tier, StagingDir: dir + "/staging"})
		target, err := m.openTarget(t.Context(), dir+"/target")
		require.NoError(t, err)
		req := Request{Source: source, Target: dir + "/target", Submounts: IncludeSubmounts, Propagation: PropagationShared}
		src, err := m.openBindSource(t.Context(), req, true)
		require.NoError(t, err)
		built, err := m.build(true, src, req, Options{})
		require.NoError(t, err)
		require.NoError(t, built.attach(target.fd))
		require.FileExists(t, dir+"/target/inner/file")
		require.NoError(t, undo(t.Context(), built, target))
		built.release()
		src.close()
		target.close()
		require.NoFileExists(t, dir+"/target/inner/file")
		require.FileExists(t, inner+"/file", tier)
		require.NoError(t, m.Close())
	}
}
