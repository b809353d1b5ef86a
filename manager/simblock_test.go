package manager

import (
	"context"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simBlock is a device, for all pods and for one. What is mapped is a file that says to
// which life of the volume.
type simBlock struct {
	*simWorld
	dir  podDir
	spec *volume.Spec // nil: to take it away
}

func (p simPlugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	return simBlock{p.simWorld, podDir{pod.UID, simName, spec.Name()}, spec}, nil
}

func (p simPlugin) NewBlockVolumeUnmapper(name string, pod types.UID) (volume.BlockVolumeUnmapper, error) {
	if name == "" || pod == "" {
		p.accuse("a device is to be taken away from pod %q, volume %q", pod, name)
	}
	return simBlock{p.simWorld, podDir{pod, simName, name}, nil}, nil
}

// ConstructBlockVolumeSpec is called from several goroutines, and changes nothing.
func (p simPlugin) ConstructBlockVolumeSpec(_ context.Context, pod types.UID, name, path string) (*volume.Spec, error) {
	if p.garbled[podDir{pod, simName, name}] {
		return nil, errSim
	}
	if p.tree[path] == nil {
		return nil, volume.ErrNotMounted
	}
	spec := simSpec(name, 0, 0)
	spec.PersistentVolume.UID = ""
	return spec, nil
}

func simMapPath(dir podDir) string {
	return "/pods/" + string(dir.pod) + "/volumeDevices/" + simEscaped + "/" + dir.name
}

func (b simBlock) GetMetrics(context.Context) (*volume.Metrics, error) { return nil, nil }
func (b simBlock) GetGlobalMapPath(spec *volume.Spec) (string, error) {
	return simMaps + spec.Name(), nil
}
func (b simBlock) GetPodDeviceMapPath() (dir, name string) {
	return "/pods/" + string(b.dir.pod) + "/volumeDevices/" + simEscaped, b.dir.name
}

func (b simBlock) SetUpDevice(ctx context.Context) (string, error) {
	return "", b.call(ctx, func() error {
		b.checkAttached(b.spec, "staged")
		dir := simMaps + b.spec.Name()
		if staged := b.truth().staged[b.spec.Name()]; staged != "" && staged != simLife(b.spec) {
			b.accuse("%s is staged, and %s still is", simLife(b.spec), staged)
		}
		err := b.mkdirs(dir)
		if err == nil {
			err = b.writeFile(dir+"/staged", []byte(simLife(b.spec)))
		}
		if err != nil {
			b.unmake(dir)
		}
		return simError(err)
	})
}

func (b simBlock) MapPodDevice(ctx context.Context) (string, error) {
	return "/dev/" + b.dir.name, b.call(ctx, func() error {
		b.checkAttached(b.spec, "mapped")
		if staged := b.truth().staged[b.dir.name]; staged != simLife(b.spec) {
			b.accuse("%s is mapped for %s, and what is staged is %q", simLife(b.spec), b.dir.pod, staged)
		}
		dir, name := b.GetPodDeviceMapPath()
		err := b.mkdirs(dir)
		if err == nil {
			err = b.writeFile(dir+"/"+name, []byte(simLife(b.spec)))
		}
		if err != nil {
			b.unmake(dir)
		}
		return simError(err)
	})
}

func (b simBlock) UnmapPodDevice(ctx context.Context) error {
	return b.call(ctx, func() error {
		return simError(ignoreMissing(b.unlink(simMapPath(b.dir))))
	})
}

func (b simBlock) TearDownDevice(ctx context.Context, mapPath, _ string) error {
	return b.call(ctx, func() error {
		if mapPath != simMaps+b.dir.name {
			b.accuse("%s is to be taken down at %q", b.dir.name, mapPath)
		}
		if users := b.users(b.dir.name); len(users) > 0 {
			b.accuse("the device of %s is taken down below %v", b.dir.name, users)
		}
		err := ignoreMissing(b.unlink(mapPath + "/staged"))
		if err == nil {
			err = ignoreMissing(b.rmdir(mapPath))
		}
		return simError(err)
	})
}
