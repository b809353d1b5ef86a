package hostpath_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	peer "k8s.io/mount-utils"
)

// onEachMounter runs a test with this library's mounter, and with one of mount-utils.
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
func (n *node) sharedData(t *testing.T, name string) (data string) {
	t.Helper()
	data = n.paths + "/" + name
	require.NoError(t, os.Mkdir(data, 0o755))
	mountShared(t, data)
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

// mountShared mounts a file system with shared propagation.
func mountShared(t *testing.T, dir string) {
	t.Helper()
	tmpfsAt(t, dir)
	require.NoError(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
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
		data := n.sharedData(t, "data")
		v := n.mounterOf(t, inPod(data, v1.HostPathDirectory))
		for range 2 {
			require.NoError(t, v.SetUp(t.Context(), volume.MounterArgs{}))
		}
		require.FileExists(t, v.GetPath()+"/own/file")
		n.nodeMounts(t, data+"/later")
		require.NoFileExists(t, v.GetPath()+"/later/file", "private")
		n.tearDown(t)
		require.FileExists(t, data+"/own/file")
		require.FileExists(t, data+"/later/file")
	})
}

// withPropagation returns the change of a configuration to a propagation of mounts.
func withPropagation(how mount.Propagation) func(*hostpath.Config) {
	return func(c *hostpath.Config) {
		c.Propagation = how
		if how != mount.PropagationPrivate {
			c.Submounts = mount.IncludeSubmounts
		}
	}
}

// TestPropagation checks that a mount which the node makes below a mounted volume propagates
// as configured, and that the node's mounts stay after TearDown, also if the configuration
// has changed.
func TestPropagation(t *testing.T) {
	onEachMounter(t, func(t *testing.T, change func(*hostpath.Config)) {
		for _, how := range []mount.Propagation{mount.PropagationPrivate, mount.PropagationSlave, mount.PropagationShared} {
			n := newNode(t, mount.Config{}, change, withPropagation(how), func(c *hostpath.Config) { c.Submounts = mount.IncludeSubmounts })
			data := n.sharedData(t, "data")
			spec := inPod(data, v1.HostPathDirectory)
			up := func() string {
				v := n.mounterOf(t, spec)
				require.NoError(t, v.SetUp(t.Context(), volume.MounterArgs{ReadOnly: true}))
				return v.GetPath()
			}
			place := up()
			n.nodeMounts(t, data+"/later")
			require.NoError(t, os.Mkdir(data+"/pods", 0o755))
			require.Equal(t, how != mount.PropagationPrivate, exists(place+"/later/file"), how)
			tmpfsAt(t, place+"/pods")
			require.NoError(t, os.WriteFile(place+"/pods/file", nil, 0o600))
			require.Equal(t, how == mount.PropagationShared, exists(data+"/pods/file"), how)
			require.Equal(t, place, up(), "it is up")

			// Restarted, with private volumes.
			found, err := nodeIn(t, n.mounter, n.dir).plugin.ConstructVolumeSpec(t.Context(), "vol", place)
			require.NoError(t, err)
			require.Equal(t, data, found.Spec.Volume.HostPath.Path)
			require.True(t, found.Spec.ReadOnly)
			nodeIn(t, n.mounter, n.dir, change).tearDown(t)
			for _, file := range []string{"/own/file", "/later/file"} {
				require.FileExists(t, data+file, how)
			}
			require.Equal(t, how == mount.PropagationShared, exists(data+"/pods/file"), "%v: it is for the pod to unmount", how)
			require.NoError(t, unix.Unmount(data, unix.MNT_DETACH))
			require.NoError(t, os.Remove(data))
		}
	})
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// TestTearDownOfSharedVolume: also a volume that was bound as part of the peer group, as
// mount(8) does by itself, takes nothing of the node's with it.
func TestTearDownOfSharedVolume(t *testing.T) {
	onEachMounter(t, func(t *testing.T, change func(*hostpath.Config)) {
		n := newNode(t, mount.Config{}, change)
		data, place := n.sharedData(t, "data"), n.unmounter(t).GetPath()
		require.NoError(t, os.MkdirAll(place, 0o755))
		require.NoError(t, unix.Mount(data, place, "", unix.MS_BIND|unix.MS_REC, ""))
		n.nodeMounts(t, data+"/later")
		require.FileExists(t, place+"/later/file", "it spreads")
		n.tearDown(t)
		require.FileExists(t, data+"/own/file")
		require.FileExists(t, data+"/later/file")
	})
}

// TestContractOfShared is the contract for volumes that spread mounts, of directories in a
// shared mount.
func TestContractOfShared(t *testing.T) {
	for name, how := range map[string]mount.Propagation{"slave": mount.PropagationSlave, "shared": mount.PropagationShared} {
		t.Run(name, func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			mountShared(t, filepath.Dir(t.TempDir())) // in which are further ones
			config := hostpath.Config{Propagation: how, Submounts: mount.IncludeSubmounts}
			volumetest.TestPlugin(t, contractConfig(t, inPod, realMounter, config))
		})
	}
}
