package volumetest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// brokenBlocks are plugins that handle raw devices wrongly.
func brokenBlocks() map[string]broken {
	plugins := map[string]broken{}
	add := func(name, test, says string, does mapping) {
		plugins["block_"+name] = broken{does.config, test, says}
	}
	const left = "something is left of devices that are gone"
	add("sound", "Block.*", "", mapping{})
	add("map_once", "Block", "mapped before", mapping{beforeMap: refuseMapped})
	add("unmap_once", "Block", "not mapped", mapping{beforeUnmap: refuseUnmapped})
	add("unmaps_for_all", "Block", "a device that is mapped is at the pod's path", mapping{afterUnmap: unmapOthers})
	add("forgets", "Block", "a device that is not mapped is at the pod's path", mapping{forgets: true})
	add("maps_nothing", "Block", "the device is there", mapping{noDevice: true})
	add("one_at_a_time", "BlockAtOnce", "two at once", mapping{alone: true})
	add("no_names", "BlockBad", "was not refused", mapping{anyName: true})
	add("to_mount", "BlockConstruct", "a volume that was mapped comes back as one to mount", mapping{toMount: true})
	add("map_again", "BlockConstruct", "mapping what is mapped changed something", mapping{beforeMap: note})
	add("goes_on", "BlockEndedContext", "context canceled", mapping{goesOn: true})
	add("begins", "BlockEndedContext", "mapping with an ended context changed something", mapping{beforeMap: note})
	add("removes_files", "BlockKeepsStray", "no such file", mapping{beforeUnmap: os.Remove})
	add("leaks", "BlockLeavesNothing", left, mapping{beforeUnmap: note})
	plugins["block_not_mentioned"] = broken{func() volumetest.Config[*testing.T] {
		config := mapping{}.config()
		config.BlockSpec = nil
		return config
	}, "Block", "the configuration needs BlockSpec, or NoBlock"}
	return plugins
}

func refuseMapped(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return errors.New("mapped before")
	}
	return nil
}

func refuseUnmapped(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return errors.New("not mapped")
	}
	return nil
}

func unmapOthers(path string) error {
	pod := filepath.Dir(filepath.Dir(filepath.Dir(path)))
	others, err := filepath.Glob(filepath.Join(filepath.Dir(pod), "*", "volumeDevices", "*", filepath.Base(path)))
	for _, other := range others {
		err = errors.Join(err, os.Remove(other))
	}
	return err
}

// note creates a further file at each call, beside the device.
func note(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "note")
	if err != nil {
		return err
	}
	return f.Close()
}

// mapping changes the handling of raw devices of the fake plugin.
type mapping struct {
	*volumetest.FakePlugin
	beforeMap, beforeUnmap, afterUnmap func(path string) error

	forgets  bool // does not find devices that another process has mapped
	noDevice bool
	alone    bool // returns one mapper only
	anyName  bool
	toMount  bool
	goesOn   bool // continues after the end of a context

	mappers *atomic.Int32
}

func (p mapping) config() volumetest.Config[*testing.T] {
	return wrapFake(func(fake *volumetest.FakePlugin, _ volume.VolumeHost) volume.VolumePlugin {
		p := p
		p.FakePlugin, p.mappers = fake, new(atomic.Int32)
		return &p
	})
}

// validUID returns a valid UID in place of an invalid one.
func (p *mapping) validUID(uid types.UID) types.UID {
	if len(uid) < 3 && p.anyName {
		return "any"
	}
	return uid
}

func (p *mapping) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	if pod != nil {
		pod = pod.DeepCopy()
		pod.UID = p.validUID(pod.UID)
	}
	m, err := p.FakePlugin.NewBlockVolumeMapper(spec, pod)
	if err != nil {
		return nil, err
	}
	p.mappers.Add(1)
	return &mapper{m, p}, nil
}

func (p *mapping) NewBlockVolumeUnmapper(name string, uid types.UID) (volume.BlockVolumeUnmapper, error) {
	u, err := p.FakePlugin.NewBlockVolumeUnmapper(name, p.validUID(uid))
	if err != nil {
		return nil, err
	}
	return &unmapper{u, p}, nil
}

func (p *mapping) ConstructBlockVolumeSpec(ctx context.Context, uid types.UID, name, path string) (volume.ReconstructedVolume, error) {
	spec, err := p.FakePlugin.ConstructBlockVolumeSpec(ctx, uid, name, path)
	if err == nil && p.toMount {
		spec.Spec.PersistentVolume.Spec.VolumeMode = nil
	}
	return spec, err
}

func atDevice(v volume.BlockVolume, do func(path string) error) error {
	if do == nil {
		return nil
	}
	dir, name := v.GetPodDeviceMapPath()
	return do(filepath.Join(dir, name))
}

type mapper struct {
	volume.BlockVolumeMapper
	plugin *mapping
}

func (m *mapper) MapPodDevice(ctx context.Context, paths volume.BlockVolumePaths) (string, error) {
	if m.plugin.alone && m.plugin.mappers.Load() > 1 {
		return "", errors.New("two at once")
	}
	if m.plugin.goesOn {
		ctx = context.WithoutCancel(ctx)
	}
	if err := atDevice(m, m.plugin.beforeMap); err != nil {
		return "", err
	}
	device, err := m.BlockVolumeMapper.MapPodDevice(ctx, paths)
	if err == nil && m.plugin.noDevice {
		device += "-that-is-missing"
	}
	return device, err
}

type unmapper struct {
	volume.BlockVolumeUnmapper
	plugin *mapping
}

func (u *unmapper) UnmapPodDevice(ctx context.Context) error {
	if err := atDevice(u, u.plugin.beforeUnmap); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if u.plugin.forgets && u.plugin.mappers.Load() == 0 {
		return nil
	}
	if err := u.BlockVolumeUnmapper.UnmapPodDevice(ctx); err != nil {
		return err
	}
	return atDevice(u, u.plugin.afterUnmap)
}
