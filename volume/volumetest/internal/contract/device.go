package contract

import (
	"context"
	"io/fs"
	"os"
	"syscall"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// A device is a volume that is mounted once for the node.
type device struct {
	*contract
	spec      *volume.Spec
	mounter   volume.DeviceMounter
	unmounter volume.DeviceUnmounter
	path      string
}

// device returns the device of a volume, or false if it is not mounted once for the node.
func (c *contract) device(spec *volume.Spec) (device, bool) {
	c.Helper()
	plugin, ok := volume.As[volume.DeviceMountableVolumePlugin](c.plugin)
	if !ok {
		return device{}, false
	}
	can, err := plugin.CanDeviceMount(c.Context(), spec)
	require.NoError(c, err)
	if !can {
		return device{}, false
	}
	d := device{contract: c, spec: spec}
	d.mounter, err = plugin.NewDeviceMounter()
	require.NoError(c, err)
	d.unmounter, err = plugin.NewDeviceUnmounter()
	require.NoError(c, err)
	d.path, err = d.mounter.GetDeviceMountPath(spec)
	require.NoError(c, err)
	return d, true
}

func (d device) mount(ctx context.Context) error {
	return d.mountFor(ctx, nil)
}

func (d device) mountFor(ctx context.Context, group *int64) error {
	return d.mounter.MountDevice(ctx, d.spec, d.path, volume.DeviceMounterArgs{FsGroup: group})
}

func (d device) unmount(ctx context.Context) error { return d.unmounter.UnmountDevice(ctx, d.path) }

// stage mounts a volume's device, if it has one, until the end of the test.
func (c *contract) stage(spec *volume.Spec) {
	c.Helper()
	d, ok := c.device(spec)
	if !ok {
		return
	}
	require.NoError(c, d.mount(c.Context()))
	c.devices[tablepath.Of(d.path)] = true
	c.Cleanup(func() { require.NoError(c, d.unmount(context.Background())) })
}

// unstage unmounts a device that stage has mounted.
func (c *contract) unstage(spec *volume.Spec) {
	c.Helper()
	if d, ok := c.device(spec); ok {
		require.NoError(c, d.unmount(c.Context()))
		delete(c.devices, tablepath.Of(d.path))
	}
}

// unmountedDevice returns a device that is not mounted, or skips the test.
func (c *contract) unmountedDevice() device {
	c.Helper()
	d, ok := c.device(c.Spec())
	if !ok {
		c.Skip("the plugin's volumes are not mounted once per node")
	}
	return d
}

func (c *contract) deviceMount() {
	d := c.unmountedDevice()
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	require.ErrorIs(c, d.mount(ended), context.Canceled)
	c.requireNoRefs(d)
	require.NoError(c, d.unmount(c.Context()), "it is not mounted")
	d.requireGone(d.path)
	c.requireNoRefs(d)
	for range 2 {
		for range 2 {
			require.NoError(c, d.mount(c.Context()))
			require.Len(c, c.mounts(), 1, "one mount for one device")
		}
		require.ErrorIs(c, d.unmount(ended), context.Canceled)
		require.Len(c, c.mounts(), 1)
		c.requireRefs(d)
		for range 2 {
			require.NoError(c, d.unmount(c.Context()))
			d.requireGone(d.path)
		}
	}
	for what, spec := range unsupportedSpecs() {
		_, err := d.mounter.GetDeviceMountPath(spec)
		require.Error(c, err, what)
		require.Error(c, d.mounter.MountDevice(c.Context(), spec, d.path, volume.DeviceMounterArgs{}), what)
	}
	_, err := os.Lstat(d.path)
	require.ErrorIs(c, err, fs.ErrNotExist)
}

func (c *contract) deviceMountable() volume.DeviceMountableVolumePlugin {
	able, _ := volume.As[volume.DeviceMountableVolumePlugin](c.plugin)
	return able
}

// requireNoRefs verifies that a missing path has no references.
func (c *contract) requireNoRefs(d device) {
	c.Helper()
	_, err := os.Lstat(d.path)
	require.ErrorIs(c, err, fs.ErrNotExist)
	refs, err := c.deviceMountable().GetDeviceMountRefs(c.Context(), d.path)
	require.NoError(c, err, "of a path that is missing")
	require.Empty(c, refs)
}

// requireRefs verifies that pods that use a device are its references.
func (c *contract) requireRefs(d device) {
	c.Helper()
	refs := func() []string {
		c.Helper()
		refs, err := c.deviceMountable().GetDeviceMountRefs(c.Context(), d.path)
		require.NoError(c, err)
		return refs
	}
	before := len(refs()) // the storage itself may be a reference
	mounter := c.newMounter(d.spec)
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	require.Len(c, refs(), before+1)
	require.Contains(c, refs(), tablepath.Of(mounter.GetPath()))
	require.NoError(c, c.newUnmounter(d.spec).TearDown(c.Context()))
	require.Len(c, refs(), before)
}

// deviceMountForGroup: the manager passes the group of the first pod, and mounts again for
// the next one.
func (c *contract) deviceMountForGroup() {
	d := c.unmountedDevice()
	id := c.otherGroup()
	for _, group := range []*int64{&id, nil, &id} {
		require.NoError(c, d.mountFor(c.Context(), group), "a group is no error")
		require.Len(c, c.mounts(), 1, "one mount for one device")
	}
	require.NoError(c, d.unmount(c.Context()))
	d.requireGone(d.path)
}

func (c *contract) deviceMountFails() {
	fake := c.requireFake()
	d := c.unmountedDevice()
	fake.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EIO})
	for range 2 {
		err := d.mount(c.Context())
		require.ErrorIs(c, err, syscall.EIO)
		require.Empty(c, c.mounts())
	}
	fake.ClearFaults()
	require.NoError(c, d.mount(c.Context()))
	fake.Inject(mounttest.Fault{Op: mounttest.OpUnmount, Err: syscall.EBUSY})
	err := d.unmount(c.Context())
	require.ErrorIs(c, err, syscall.EBUSY)
	require.Equal(c, volume.Transient, volume.KindOf(err))
	require.Len(c, c.mounts(), 1)
	fake.ClearFaults()
	require.NoError(c, d.unmount(c.Context()))
	d.requireGone(d.path)
}
