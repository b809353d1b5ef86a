package hostpath_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	peer "k8s.io/mount-utils"
)

// onEachMounter runs a test with a mounter of ours, and with one of mount-utils.
func onEachMounter(t *testing.T, test func(t *testing.T, change func(*hostpath.Config))) {
	if !mounttest.RootNamespace(t) { // for umount(8)
		return
	}
	for name, m := range map[string]mount.Interface{"own": mount.New(mount.Config{}), "mount-utils": mountutils.From(peer.New(""))} {
		t.Run(name, func(t *testing.T) { test(t, func(c *hostpath.Config) { c.Mounter = m }) })
	}
}

// sharedData is a directory of the node that is a shared mount, as all are by default of
// systemd's, with something of the node's own mounted below it.
func (n *node) sharedData(t *testing.T) (data string) {
	t.Helper()
	data = n.paths + "/data"
	require.NoError(t, os.Mkdir(data, 0o755))
	tmpfsAt(t, data)
	require.NoError(t, unix.Mount("", data, "", unix.MS_SHARED, ""))
	n.nodeMounts(t, data+"/own")
	return data
}

// nodeMounts mounts a file system, in which there is a file.
func (n *node) nodeMounts(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o755))
	tmpfsAt(t, dir)
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
}

func tmpfsAt(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// TestSubmountsOfSharedMount: the mounts of the node that are part of a volume, or come
// to be later, are the node's, and stay when the volume comes down.
func TestSubmountsOfSharedMount(t *testing.T) {
	onEachMounter(t, func(t *testing.T, change func(*hostpath.Config)) {
		n := newNode(t, mount.Config{}, change, func(c *hostpath.Config) { c.Submounts = mount.IncludeSubmounts })
		data := n.sharedData(t)
		v := n.mounterOf(t, inPod(data, v1.HostPathDirectory))
		for range 2 {
			require.NoError(t, v.SetUp(t.Context(), volume.MounterArgs{}))
		}
		require.FileExists(t, v.GetPath()+"/own/file")
		n.nodeMounts(t, data+"/later")
		require.NoFileExists(t, v.GetPath()+"/later/file", "private")
		n.down(t)
		require.FileExists(t, data+"/own/file")
		require.FileExists(t, data+"/later/file")
	})
}

// TestSharedVolumeComesDown: also a volume that was bound as part of the peer group, as
// mount(8) does by itself, takes nothing of the node's with it.
func TestSharedVolumeComesDown(t *testing.T) {
	onEachMounter(t, func(t *testing.T, change func(*hostpath.Config)) {
		n := newNode(t, mount.Config{}, change)
		data, place := n.sharedData(t), n.unmounter(t).GetPath()
		require.NoError(t, os.MkdirAll(place, 0o755))
		require.NoError(t, unix.Mount(data, place, "", unix.MS_BIND|unix.MS_REC, ""))
		n.nodeMounts(t, data+"/later")
		require.FileExists(t, place+"/later/file", "it spreads")
		n.down(t)
		require.FileExists(t, data+"/own/file")
		require.FileExists(t, data+"/later/file")
	})
}
