package mount

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestErrorsNameMissingProc: without /proc the errors name /proc and wrap errors.ErrUnsupported,
// and do not report a missing path.
func TestErrorsNameMissingProc(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/target", 0o755))
	m := New(Config{})
	require.NoError(t, m.Mount(t.Context(), Request{Target: dir + "/target", FSType: "tmpfs"}))
	require.NoError(t, unix.Mount("tmpfs", "/proc", "tmpfs", 0, ""))
	for name, call := range map[string]func() error{
		"unmount":      func() error { return m.Unmount(t.Context(), dir+"/target") },
		"unmount tree": func() error { return m.UnmountTree(t.Context(), dir+"/target") },
		"refs":         func() error { _, err := m.MountRefs(t.Context(), dir+"/target"); return err },
		"resolve":      func() error { _, err := m.Resolve(t.Context(), dir+"/target"); return err },
		"list":         func() error { _, err := m.List(t.Context()); return err },
		"follow links": func() error { _, err := m.FollowLinks(t.Context(), dir+"/target"); return err },
	} {
		err := call()
		require.ErrorContains(t, err, "/proc", name)
		require.NotErrorIs(t, err, os.ErrNotExist, name)
		require.ErrorIs(t, err, errors.ErrUnsupported, name)
	}
	for _, tier := range Tiers() {
		classic := New(Config{Tier: tier, StagingDir: dir + "/staging"})
		if err := classic.Mount(t.Context(), Request{Source: dir, Target: dir + "/target", Stack: true}); err != nil {
			require.NotErrorIs(t, err, os.ErrNotExist, tier)
			continue
		}
		require.NoError(t, unix.Unmount(dir+"/target", 0))
	}
	require.NoError(t, unix.Unmount("/proc", 0))
	require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
}
