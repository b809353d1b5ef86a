package manager

import (
	"context"

	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simBlock is a block volume: its staged device for all pods, and its mapping in one pod. A
// mapping is a file that contains the life of the mapped volume.
type simBlock struct {
	*simWorld
	dir  naming.PodDir
	spec *volume.Spec // nil: for a tear-down
}

func (p simPlugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	return simBlock{p.simWorld, naming.PodDir{Pod: pod.UID, Plugin: p.name, Name: spec.Name()}, spec}, nil
}

func (p simPlugin) NewBlockVolumeUnmapper(name string, pod types.UID) (volume.BlockVolumeUnmapper, error) {
	if name == "" || pod == "" {
		p.reportViolation("unmap of volume %[2]q from pod %[1]q", pod, name)
	}
	return simBlock{p.simWorld, naming.PodDir{Pod: pod, Plugin: p.name, Name: name}, nil}, nil
}

// ConstructBlockVolumeSpec is called from several goroutines, and changes nothing.
func (p simPlugin) ConstructBlockVolumeSpec(_ context.Context, pod types.UID, name, path string) (volume.ReconstructedVolume, error) {
	if p.unrecognized[naming.PodDir{Pod: pod, Plugin: p.name, Name: name}] {
		return volume.ReconstructedVolume{}, errSim
	}
	if p.tree[path] == nil {
		return volume.ReconstructedVolume{}, volume.ErrNotMounted
	}
	return volume.ReconstructedVolume{Spec: simRecovered(string(p.tree[path].data))}, nil
}

func (b simBlock) place() naming.PodDir { return simPlace(b.dir.Plugin, b.dir.Name) }

func simMapPath(dir naming.PodDir) string {
	return "/pods/" + string(dir.Pod) + "/volumeDevices/" + simEscape(dir.Plugin) + "/" + dir.Name
}

func (b simBlock) GetMetrics(context.Context) (*volume.Metrics, error) { return nil, nil }
func (b simBlock) GetGlobalMapPath(spec *volume.Spec) (string, error) {
	return simMaps(b.dir.Plugin) + spec.Name(), nil
}
func (b simBlock) GetPodDeviceMapPath() (dir, name string) {
	return "/pods/" + string(b.dir.Pod) + "/volumeDevices/" + simEscape(b.dir.Plugin), b.dir.Name
}

func (b simBlock) SetUpDevice(ctx context.Context, paths volume.BlockVolumePaths) (string, error) {
	return "", b.call(ctx, func() error {
		b.checkAttached(b.spec, "staged")
		b.checkPaths(paths)
		dir := simStagePath(b.place())
		if staged := b.truth().staged[b.place()]; staged != "" && staged != simLife(b.spec) {
			b.reportViolation("%s is staged, and %s is staged already", simLife(b.spec), staged)
		}
		err := b.mkdirs(dir)
		if err == nil {
			err = b.writeFile(dir+"/staged", []byte(simLife(b.spec)))
		}
		if err != nil {
			b.removeCreated(dir)
		}
		return simError(err)
	})
}

// checkPaths reports a violation if the plugin receives wrong paths of the volume.
func (b simBlock) checkPaths(paths volume.BlockVolumePaths) {
	if paths.GlobalMapPath != simStagePath(b.place()) || needs(b.dir.Name, "a") != (paths.DevicePath != "") {
		b.reportViolation("%s is staged or mapped with the paths %+v", simLife(b.spec), paths)
	}
}

func (b simBlock) MapPodDevice(ctx context.Context, paths volume.BlockVolumePaths) (string, error) {
	return "/dev/" + b.dir.Name, b.call(ctx, func() error {
		b.checkAttached(b.spec, "mapped")
		b.checkPaths(paths)
		if staged := b.truth().staged[b.place()]; staged != simLife(b.spec) {
			b.reportViolation("%s is mapped for %s, and %q is staged", simLife(b.spec), b.dir.Pod, staged)
		}
		dir, name := b.GetPodDeviceMapPath()
		err := b.mkdirs(dir)
		if err == nil {
			err = b.writeFile(dir+"/"+name, []byte(simLife(b.spec)))
		}
		if err != nil {
			b.removeCreated(dir)
		}
		return simError(err)
	})
}

func (b simBlock) UnmapPodDevice(ctx context.Context) error {
	return b.call(ctx, func() error {
		return simError(recordstore.IgnoreMissing(b.unlink(simMapPath(b.dir))))
	})
}

func (b simBlock) TearDownDevice(ctx context.Context, paths volume.BlockVolumePaths) error {
	return b.call(ctx, func() error {
		if paths.GlobalMapPath != simStagePath(b.place()) {
			b.reportViolation("tear-down of %s at %q", b.dir.Name, paths.GlobalMapPath)
		}
		if users := b.usersAt(b.place(), true); len(users) > 0 {
			b.reportViolation("the device of %s is torn down while %v use it", b.dir.Name, users)
		}
		err := recordstore.IgnoreMissing(b.unlink(paths.GlobalMapPath + "/staged"))
		if err == nil {
			err = recordstore.IgnoreMissing(b.rmdir(paths.GlobalMapPath))
		}
		return simError(err)
	})
}
