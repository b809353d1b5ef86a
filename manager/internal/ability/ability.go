package ability

import (
	"fmt"

	"github.com/volumekit/volumekit/volume"
)

// Attachable returns the plugin's ability to attach volumes.
func Attachable(plugin volume.VolumePlugin) (volume.AttachableVolumePlugin, error) {
	able, ok := volume.As[volume.AttachableVolumePlugin](plugin)
	if !ok {
		return nil, fmt.Errorf("attach volume of plugin %s: %w", plugin.GetPluginName(), volume.ErrNotSupported)
	}
	return able, nil
}

// DeviceMountable returns the plugin's ability to mount a volume once for all pods.
func DeviceMountable(plugin volume.VolumePlugin) (volume.DeviceMountableVolumePlugin, error) {
	able, ok := volume.As[volume.DeviceMountableVolumePlugin](plugin)
	if !ok {
		return nil, fmt.Errorf("mount device of plugin %s: %w", plugin.GetPluginName(), volume.ErrNotSupported)
	}
	return able, nil
}

// Block returns the plugin's ability to make block devices available.
func Block(plugin volume.VolumePlugin) (volume.BlockVolumePlugin, error) {
	able, ok := volume.As[volume.BlockVolumePlugin](plugin)
	if !ok {
		return nil, fmt.Errorf("map block device of plugin %s: %w", plugin.GetPluginName(), volume.ErrNotSupported)
	}
	return able, nil
}
