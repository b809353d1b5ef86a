package volumetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/volume"
)

var _ volume.BlockVolumePlugin = (*FakePlugin)(nil)

// NewBlockVolumeMapper implements [volume.BlockVolumePlugin]. A mapped volume is
// a symbolic link to its directory.
func (p *FakePlugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	if err := p.count(NewBlockVolumeMapper); err != nil {
		return nil, err
	}
	source, err := p.source(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	return p.block(spec.Name(), pod.UID, source)
}

// NewBlockVolumeUnmapper implements [volume.BlockVolumePlugin].
func (p *FakePlugin) NewBlockVolumeUnmapper(volumeName string, podUID types.UID) (volume.BlockVolumeUnmapper, error) {
	if err := p.count(NewBlockVolumeUnmapper); err != nil {
		return nil, err
	}
	return p.block(volumeName, podUID, "")
}

// ConstructBlockVolumeSpec implements [volume.BlockVolumePlugin].
func (p *FakePlugin) ConstructBlockVolumeSpec(ctx context.Context, _ types.UID, volumeName, mapPath string) (found volume.ReconstructedVolume, err error) {
	err = p.call(ctx, ConstructBlockVolumeSpec, func() error {
		if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
			return err
		}
		source, err := os.Readlink(mapPath)
		if err != nil {
			return fmt.Errorf("volume %q at %q: %w: %w", volumeName, mapPath, volume.ErrNotMounted, err)
		}
		found.Spec = p.NewSpec(volumeName, source)
		block := v1.PersistentVolumeBlock
		found.Spec.PersistentVolume.Spec.VolumeMode = &block
		return nil
	})
	if err != nil {
		return volume.ReconstructedVolume{}, err
	}
	return found, nil
}

// A fakeBlock maps a volume for a pod, and unmaps it.
type fakeBlock struct {
	plugin    *FakePlugin
	dir, name string
	source    string // of a mapper
}

func (p *FakePlugin) block(name string, podUID types.UID, source string) (*fakeBlock, error) {
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), name); err != nil {
		return nil, err
	}
	host, err := p.getHost()
	if err != nil {
		return nil, err
	}
	dir, err := host.PodVolumeDeviceDir(podUID, p.config.Name)
	if err != nil {
		return nil, err
	}
	return &fakeBlock{p, dir, name, source}, nil
}

func (b *fakeBlock) GetGlobalMapPath(spec *volume.Spec) (string, error) {
	if err := spec.Validate(); err != nil {
		return "", err
	}
	return b.plugin.pluginPath("volumeDevices", spec.Name())
}

func (b *fakeBlock) GetPodDeviceMapPath() (dir, name string) { return b.dir, b.name }

func (b *fakeBlock) link() string { return filepath.Join(b.dir, b.name) }

func (b *fakeBlock) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	var metrics *volume.Metrics
	err := b.plugin.call(ctx, GetMetrics, func() error {
		if _, err := os.Readlink(b.link()); err != nil {
			return fmt.Errorf("%w: %w", volume.ErrNotMounted, err)
		}
		metrics = &volume.Metrics{Time: madeUpMetrics().Time, Capacity: madeUpMetrics().Capacity}
		return nil
	})
	return metrics, err
}

func (b *fakeBlock) SetUpDevice(ctx context.Context, _ volume.BlockVolumePaths) (string, error) {
	return "", b.plugin.call(ctx, SetUpDevice, func() error { return nil })
}

// exclusively runs work as the only call for the pod's device.
func (b *fakeBlock) exclusively(ctx context.Context, method Method, work func() error) error {
	return b.plugin.call(ctx, method, func() error {
		unlock, err := b.plugin.locks.Lock(ctx, b.link())
		if err != nil {
			return err
		}
		defer unlock()
		return work()
	})
}

func (b *fakeBlock) MapPodDevice(ctx context.Context, _ volume.BlockVolumePaths) (string, error) {
	err := b.exclusively(ctx, MapPodDevice, func() error {
		if err := makeDirs(b.dir); err != nil {
			return err
		}
		if there, err := os.Readlink(b.link()); err == nil && there == b.source {
			return nil
		}
		return os.Symlink(b.source, b.link())
	})
	if err != nil {
		return "", err
	}
	return b.link(), nil
}

func (b *fakeBlock) UnmapPodDevice(ctx context.Context) error {
	return b.exclusively(ctx, UnmapPodDevice, func() error {
		if _, err := os.Readlink(b.link()); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err // not a link of the plugin
		}
		return os.Remove(b.link())
	})
}

func (b *fakeBlock) TearDownDevice(ctx context.Context, _ volume.BlockVolumePaths) error {
	return b.plugin.call(ctx, TearDownDevice, func() error { return nil })
}
