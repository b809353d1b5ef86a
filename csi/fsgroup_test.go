package csi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
)

// publishedMode returns the permissions of the published directory, which a group changes: the fake kernel
// shows the directory under the mount.
func (n *fakeNode) publishedMode(name string) os.FileMode {
	info, err := os.Stat(filepath.Dir(n.podFile(name)) + "/mount")
	require.NoError(n.t, err)
	return info.Mode()
}

// TestApplyGroup: the group is applied once, also after a restart before it was applied, and not to a
// volume that is up already: the pod may have changed its files.
func TestApplyGroup(t *testing.T) {
	n := newFakeNode(t)
	n.withObject(storagev1.CSIDriverSpec{FSGroupPolicy: ptr(storagev1.FileFSGroupPolicy)})
	spec := n.pv("data")
	args := volume.MounterArgs{FsGroup: ptr(int64(os.Getegid()))}
	reset := func() { require.NoError(t, os.Chmod(filepath.Dir(n.podFile("data"))+"/mount", 0o700)) }
	n.driver.set(func(d *fakeDriver) { d.after = failWith("NodePublishVolume", codes.DeadlineExceeded) })
	require.Error(t, n.setUp(spec, args))
	reset()
	n.driver.set(func(d *fakeDriver) { d.after = nil })
	n.restart()
	require.NoError(t, n.setUp(spec, args))
	require.Equal(t, os.ModeDir|os.ModeSetgid|0o770, n.publishedMode("data"))
	for range 2 {
		reset()
		n.restart()
		require.NoError(t, n.setUp(spec, volume.MounterArgs{FsGroup: args.FsGroup, IsRemount: true}))
		require.Equal(t, os.ModeDir|0o700, n.publishedMode("data"), "the pod may have changed it")
	}
	require.NoError(t, n.tearDown("data"))
	require.NoError(t, os.MkdirAll(filepath.Dir(n.podFile("data")), 0o750))
	require.NoError(t, os.WriteFile(n.podFile("data"), nil, 0o600))
	require.NoError(t, n.setUp(spec, args))
	require.Equal(t, os.ModeDir|os.ModeSetgid|0o770, n.publishedMode("data"), "a broken file of a volume that is not mounted")
}
