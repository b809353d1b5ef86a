package mountutils_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	peer "k8s.io/mount-utils"
)

// anything is what mount(8) allows.
var anything = mount.Config{Allow: mount.Allow{SUID: true, Dev: true, Context: true}}

// A stage is a mounter on a Fake, and some real directories and files.
type stage struct {
	*mountutils.Mounter
	fake *mounttest.Fake
	t    *testing.T
	dir  string
}

func newStage(t *testing.T, options ...mountutils.Option) stage {
	t.Helper()
	fake := mounttest.NewFake(anything)
	return stage{mountutils.New(fake, options...), fake, t, tree(t)}
}

// tree makes directories "source", "source/sub", "target" and "other", and files
// "file" and "target-file".
func tree(t *testing.T) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"source/sub", "target", "other"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	for _, name := range []string{"file", "target-file"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	return dir
}

func (s stage) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// at returns what is mounted at a path, top last.
func (s stage) at(name string) []peer.MountPoint {
	s.t.Helper()
	list, err := s.List()
	require.NoError(s.t, err)
	var at []peer.MountPoint
	for _, point := range list {
		if point.Path == filepath.ToSlash(s.path(name)) {
			at = append(at, point)
		}
	}
	return at
}
