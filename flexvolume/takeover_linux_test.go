package flexvolume

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestDevice: for a driver that only attaches, the plugin formats and mounts the device, and the mounts are those that a
// kubelet expects, and makes: both can go on with the volumes of the other.
func TestDevice(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	testbed.RequirePrograms(t, "ext4", "mkfs.ext4")
	n := newScriptNode(t, `#!/bin/sh
echo "$1" >>"$LOG"
case $1 in
init) echo '{"status": "Success"}' ;;
*) echo '{"status": "Not supported"}' ;;
esac
`)
	image := filepath.Join(t.TempDir(), "image")
	testbed.Image(t, image, 16<<20)
	device := testbed.Loop(t, image)
	spec := n.newVolume(t)
	spec.PersistentVolume.Spec.FlexVolume.FSType = "ext4"
	global := n.root + "/plugins/kubernetes.io/flexvolume/example.com/fake/mounts/" + spec.Name()
	at := n.root + "/pods/uid/volumes/example.com~fake/" + spec.Name()

	devices, err := n.plugin.NewDeviceMounter()
	require.NoError(t, err)
	up := func() {
		t.Helper()
		for range 2 {
			require.NoError(t, devices.MountDevice(t.Context(), spec, global, volume.DeviceMounterArgs{DevicePath: device}))
			require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
		}
		require.ElementsMatch(t, []string{global, at}, n.mounts(t))
	}
	down := func() {
		t.Helper()
		refs, err := n.plugin.GetDeviceMountRefs(t.Context(), global)
		require.NoError(t, err)
		require.Equal(t, []string{at}, refs)
		require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
		unmounter, err := n.plugin.NewDeviceUnmounter()
		require.NoError(t, err)
		require.NoError(t, unmounter.UnmountDevice(t.Context(), global))
		require.Empty(t, n.mounts(t))
		require.NoDirExists(t, at)
		require.NoDirExists(t, global)
	}
	up()
	require.NoError(t, os.WriteFile(at+"/file", []byte("text"), 0o600))
	down()

	// A kubelet's mounts are shared, and have no flags.
	for _, dir := range []string{global, at} {
		require.NoError(t, os.MkdirAll(dir, 0o750))
	}
	require.NoError(t, unix.Mount(device, global, "ext4", 0, ""))
	require.NoError(t, unix.Mount("", global, "", unix.MS_SHARED, ""))
	require.NoError(t, unix.Mount(global, at, "", unix.MS_BIND, ""))
	before := map[string]mount.Place{}
	for _, dir := range []string{global, at} {
		before[dir], err = n.mounter.Resolve(t.Context(), dir)
		require.NoError(t, err)
	}
	n.plugin = New(n.config(n.mounter))
	require.NoError(t, n.plugin.Init(t.Context(), n.host))
	found, err := n.plugin.ConstructVolumeSpec(t.Context(), spec.Name(), at)
	require.NoError(t, err)
	require.True(t, n.plugin.CanSupport(found.Spec))
	require.False(t, found.Spec.IsReadOnly())
	devices, err = n.plugin.NewDeviceMounter()
	require.NoError(t, err)
	up()
	for dir, was := range before {
		is, err := n.mounter.Resolve(t.Context(), dir)
		require.NoError(t, err)
		require.Equal(t, was, is)
	}
	require.FileExists(t, at+"/file")
	down()
}
