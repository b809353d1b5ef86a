package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/volumekit/volumekit/volume"
)

// mountDevice mounts the volume once for all pods, or makes its device ready. It reports
// whether it is mounted for pods that only read it. If it is, and this one writes, that
// is an error, errForReaders.
func (m *Manager) mountDevice(ctx context.Context, j job) (readOnly bool, err error) {
	if j.traits.block {
		return false, m.setUpDevice(ctx, j)
	}
	able, err := deviceMountable(j.plugin)
	if err != nil {
		return false, err
	}
	mounter, err := able.NewDeviceMounter()
	if err != nil {
		return false, err
	}
	mount := func(spec *volume.Spec) error {
		return mounter.MountDevice(ctx, spec, j.deviceMountPath, volume.DeviceMounterArgs{
			DevicePath: j.devicePath, FsGroup: j.args.FsGroup, SELinuxLabel: j.args.SELinuxLabel,
		})
	}
	err = mount(j.spec)
	other := *j.spec
	other.ReadOnly = !j.spec.ReadOnly
	if !errors.Is(err, volume.ErrAlreadyMounted) || other.IsReadOnly() == j.spec.IsReadOnly() || mount(&other) != nil {
		return err == nil && j.spec.IsReadOnly(), err
	}
	if other.IsReadOnly() {
		return true, fmt.Errorf("%w: %w", errForReaders, err)
	}
	return false, nil
}

// errForReaders: whoever only reads can use what is mounted for one who writes, and not
// the other way round.
var errForReaders = errors.New("the volume is mounted for pods that only read it, and they have to go first")

// deviceMountPath asks the plugin where the volume is mounted for all pods.
func deviceMountPath(j job) (path string, err error) {
	defer recovered(&err)
	if j.traits.block {
		device, err := j.blockVolume()
		if err != nil {
			return "", err
		}
		return device.GetGlobalMapPath(j.spec)
	}
	able, err := deviceMountable(j.plugin)
	if err != nil {
		return "", err
	}
	mounter, err := able.NewDeviceMounter()
	if err != nil {
		return "", err
	}
	return mounter.GetDeviceMountPath(j.spec)
}

// unmountDevice unmounts it, unless somebody still uses it whom we do not know.
func (m *Manager) unmountDevice(ctx context.Context, j job) error {
	if j.traits.block {
		return m.tearDownDevice(ctx, j)
	}
	able, err := deviceMountable(j.plugin)
	if err != nil {
		return err
	}
	refs, err := able.GetDeviceMountRefs(ctx, j.deviceMountPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a path that is missing has none
		return err
	}
	if len(refs) > 0 {
		return fmt.Errorf("%w: mounted in other places, too: %q", volume.ErrTransient, slices.Compact(refs)[:1])
	}
	unmounter, err := able.NewDeviceUnmounter()
	if err != nil {
		return err
	}
	return unmounter.UnmountDevice(ctx, j.deviceMountPath)
}

func deviceMountable(plugin volume.VolumePlugin) (volume.DeviceMountableVolumePlugin, error) {
	able, ok := volume.As[volume.DeviceMountableVolumePlugin](plugin)
	if !ok {
		return nil, fmt.Errorf("%s mounts no devices: %w", plugin.GetPluginName(), volume.ErrNotSupported)
	}
	return able, nil
}

// errNothingToGrow: the volume is of a kind that grows, and is none of those that do.
var errNothingToGrow = errors.New("nothing to grow")

// expand grows the file system to the size of its storage.
func (m *Manager) expand(ctx context.Context, j job) error {
	able, ok := volume.As[volume.NodeExpandableVolumePlugin](j.plugin)
	if !ok {
		return fmt.Errorf("%s grows no file systems: %w", j.pluginName, volume.ErrNotSupported)
	}
	o := volume.NodeResizeOptions{Spec: j.spec, NewSize: *j.size, DevicePath: j.devicePath, DeviceMountPath: j.deviceMountPath}
	if j.oldSize != nil {
		o.OldSize = *j.oldSize
	}
	done, err := able.NodeExpand(ctx, o)
	if errors.Is(err, volume.ErrNotSupported) {
		return errNothingToGrow
	}
	if err == nil && !done {
		err = fmt.Errorf("%w: the volume cannot be grown yet", volume.ErrTransient)
	}
	return err
}
