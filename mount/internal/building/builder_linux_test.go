package building

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/spec"
)

// TestBuildShowsSource: in each tier, a mount of another file than the source is no tree.
func TestBuildShowsSource(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/source", 0o755))
	for tier := TierClassic; tier <= KernelTier(); tier++ {
		s := &spec.Spec{Source: dir + "/source"}
		source, err := OpenSource(t.Context(), new(lookup.Resolver).WithoutLinks(), s)
		require.NoError(t, err)
		b := Builder{Tier: tier, StagingDir: dir + "/staging"}
		tree, err := b.BuildBind(source, s)
		require.NoError(t, err, tier)
		tree.Release()
		source.ID.Inode++
		_, err = b.BuildBind(source, s)
		require.ErrorIs(t, err, failure.ErrNotAsRequested, tier)
		source.Close()
	}
}
