package remnants

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/volumekit/volumekit/examples/internal/workdir"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// unmap takes a raw device from its pod.
func (r Remnants) unmap(ctx context.Context, plugin volume.VolumePlugin, d directory) error {
	unmapper, err := newUnmapper(plugin, d.volume, types.UID(d.pod))
	if err != nil {
		return err
	}
	if r.Tell {
		r.Printf("%s/%s: a block device\n", cli.Plain(d.pod), cli.Plain(d.volume))
	}
	if err := unmapper.UnmapPodDevice(ctx); err != nil {
		return err
	}
	dir, name := unmapper.GetPodDeviceMapPath()
	return r.removeParents(ctx, filepath.Join(dir, name))
}

func newUnmapper(plugin volume.VolumePlugin, name string, pod types.UID) (volume.BlockVolumeUnmapper, error) {
	able, ok := volume.As[volume.BlockVolumePlugin](plugin)
	if !ok {
		return nil, fmt.Errorf("%s has no block devices: %w", plugin.GetPluginName(), volume.ErrNotSupported)
	}
	return able.NewBlockVolumeUnmapper(name, pod)
}

// takeDownDevices takes down the raw devices of all plugins, which no pod has any more. The
// directory of a plugin is plugins/<domain>/<name>.
func (r Remnants) takeDownDevices(ctx context.Context) error {
	plugins := filepath.Join(r.Root, "plugins")
	domains, err := workdir.Names(plugins)
	for _, domain := range domains {
		names, failed := workdir.Names(filepath.Join(plugins, domain))
		err = errors.Join(err, failed)
		for _, name := range names {
			err = errors.Join(err, r.takeDownDevicesOf(ctx, domain+"/"+name))
		}
	}
	return err
}

// takeDownDevicesOf takes down the raw devices of a plugin, and removes its empty directories.
func (r Remnants) takeDownDevicesOf(ctx context.Context, plugin string) error {
	dir := filepath.Join(r.Root, "plugins", plugin)
	var err error
	for _, kind := range []string{"volumeDevices", "devices"} { // maps, and notes
		volumes, failed := workdir.Names(filepath.Join(dir, kind))
		err = errors.Join(err, failed)
		for _, name := range volumes {
			err = errors.Join(err, r.takeDownDevice(ctx, plugin, name, filepath.Join(dir, "volumeDevices", name)))
		}
	}
	kinds, failed := workdir.Names(dir)
	err = errors.Join(err, failed)
	for _, kind := range append(kinds, ".") {
		err = errors.Join(err, r.removeParents(ctx, filepath.Join(dir, kind, "any")))
	}
	return err
}

func (r Remnants) takeDownDevice(ctx context.Context, pluginName, name, mapPath string) error {
	plugin, err := r.Plugins.FindPluginByName(pluginName)
	if err != nil {
		return err
	}
	unmapper, err := newUnmapper(plugin, name, "none")
	if err == nil {
		err = unmapper.TearDownDevice(ctx, volume.BlockVolumePaths{GlobalMapPath: mapPath})
	}
	if forgetful, ok := plugin.(interface {
		Forget(ctx context.Context, volumeName string) error
	}); ok && err == nil {
		err = forgetful.Forget(ctx, name)
	}
	return err
}
