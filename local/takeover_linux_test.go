package local_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestDeviceOfKubelet: the mount of a device that a kubelet has made at its path is taken over,
// and so is a pod's bind mount of it: both stay, get nosuid and nodev, and are torn down.
func TestDeviceOfKubelet(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	s := deviceSpec(r.link("disk", r.disk("disk", smallDisk)), "ext4")
	r.mountFirst(s)
	global := r.host.Root() + "/plugins/kubernetes.io/local-volume/mounts/" + s.Name()
	require.Equal(t, global, r.shared(s))
	require.NoError(t, r.unmountDevice(s))

	// The kubelet has no record of the device.
	require.NoError(t, os.RemoveAll(r.host.Root()+"/plugins/kubernetes.io/local-volume/devices"))
	require.NoError(t, os.MkdirAll(global, 0o750))
	device, err := os.Readlink(s.PersistentVolume.Spec.Local.Path)
	require.NoError(t, err)
	require.NoError(t, unix.Mount(device, global, "ext4", 0, ""))
	pod, err := r.host.PodVolumeDir("uid", "kubernetes.io/local-volume", s.Name())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(pod, 0o750))
	require.NoError(t, unix.Mount(global, pod, "", unix.MS_BIND, ""))
	before := map[string]mount.Place{}
	for _, path := range []string{global, pod} {
		before[path], err = r.mount.Resolve(t.Context(), path)
		require.NoError(t, err)
		require.Zero(t, before[path].Mount.Flags)
	}

	found, err := r.plugin.ConstructVolumeSpec(t.Context(), s.Name(), pod)
	require.NoError(t, err)
	require.Equal(t, s.PersistentVolume.Spec.Local, found.Spec.PersistentVolume.Spec.Local, "the mount table has the node, and not the link")
	for range 2 {
		require.NoError(t, r.mountDevice(s))
		at, err := r.setUp(s, "uid", volume.MounterArgs{})
		require.NoError(t, err)
		require.Equal(t, pod, at)
		for path, was := range before {
			is, err := r.mount.Resolve(t.Context(), path)
			require.NoError(t, err)
			require.Equal(t, mount.NoSUID|mount.NoDev, is.Mount.Flags, path)
			is.Mount.Flags, is.Mount.Options = was.Mount.Flags, was.Mount.Options
			require.Equal(t, was, is)
		}
	}
	r.tearDown("uid")
	require.NoDirExists(t, pod)
	require.NoError(t, r.unmountDevice(s))
	require.NoDirExists(t, global)
}
