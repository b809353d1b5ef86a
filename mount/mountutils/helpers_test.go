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

// allowAllConfig permits the options that mount(8) accepts.
var allowAllConfig = mount.Config{Allow: mount.Allow{SUID: true, Dev: true, Context: true}}

// A adapterTest is a mounter on a Fake, and some real directories and files.
type adapterTest struct {
	peer.MounterForceUnmounter
	fake *mounttest.Fake
	t    *testing.T
	dir  string
}

func newAdapterTest(t *testing.T, options ...mountutils.Option) adapterTest {
	t.Helper()
	fake := mounttest.NewFake(allowAllConfig)
	return adapterTest{mountutils.New(fake, options...), fake, t, newTree(t)}
}

// newTree creates directories "source", "source/sub", "target" and "other", and files
// "file" and "target-file".
func newTree(t *testing.T) (dir string) {
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

func (s adapterTest) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// mountsAt returns the mounts at a path, top last.
func (s adapterTest) mountsAt(name string) []peer.MountPoint {
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
