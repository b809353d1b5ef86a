package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A blockVolume is a volume that a driver publishes to a pod as a device:
//
//	<root>/pods/<pod>/volumeDevices/kubernetes.io~csi/<volume>
//
// is a link to the path at which the driver publishes the device. The link is made before the call of
// the driver, and removed after it: while the link exists the volume may be mapped.
type blockVolume struct {
	plugin *Plugin
	name   string
	pod    types.UID
	podDir string
	paths  devicePaths
}

func (p *Plugin) blockVolume(name string, pod types.UID) (blockVolume, error) {
	if p.host == nil {
		return blockVolume{}, errNotInitialised
	}
	if err := checkBlockName(field.NewPath("volumeName"), name); err != nil {
		return blockVolume{}, err
	}
	dir, err := p.host.PodVolumeDeviceDir(pod, PluginName)
	if err != nil {
		return blockVolume{}, err
	}
	paths, err := p.devicePaths(name)
	if err == nil {
		err = volume.ValidatePathComponent(field.NewPath("podUID"), path.Base(paths.podData(pod)))
	}
	return blockVolume{plugin: p, name: name, pod: pod, podDir: dir, paths: paths}, err
}

// NewBlockVolumeMapper validates the specification.
func (p *Plugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	s, err := blockSourceOf(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	b, err := p.blockVolume(s.name, pod.UID)
	if err != nil {
		return nil, err
	}
	return &blockMapper{b, s, pod}, nil
}

// NewBlockVolumeUnmapper validates the names.
func (p *Plugin) NewBlockVolumeUnmapper(volumeName string, podUID types.UID) (volume.BlockVolumeUnmapper, error) {
	b, err := p.blockVolume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return &blockUnmapper{b}, nil
}

// GetGlobalMapPath implements [volume.BlockVolume].
func (b blockVolume) GetGlobalMapPath(spec *volume.Spec) (string, error) {
	s, err := blockSourceOf(spec)
	if err != nil {
		return "", err
	}
	paths, err := b.plugin.devicePaths(s.name)
	return paths.dev, err
}

// GetPodDeviceMapPath implements [volume.BlockVolume].
func (b blockVolume) GetPodDeviceMapPath() (dir, name string) { return b.podDir, b.name }

func (b blockVolume) link() string      { return path.Join(b.podDir, b.name) }
func (b blockVolume) published() string { return path.Join(b.paths.publish, string(b.pod)) }

// stagingTarget returns the target at which the driver stages the device.
func (b blockVolume) stagingTarget() target {
	return target{path: b.paths.staging, file: b.paths.data, own: []string{path.Dir(b.paths.data), b.paths.dev, b.paths.dir}}
}

// podTarget returns the target at which the driver publishes the device to the pod.
func (b blockVolume) podTarget() target {
	return target{path: b.published(), file: b.paths.podData(b.pod)}
}

// exclusively runs work as the only one for the volume.
func (b blockVolume) exclusively(ctx context.Context, work func(ctx context.Context) error) (err error) {
	defer brief.Shorten(&err)
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	return b.plugin.mounts.Exclusively(ctx, b.paths.dir, func(ctx context.Context, _ string) error { return work(ctx) })
}

// GetMetrics calls NodeGetVolumeStats for the device of the pod.
func (b blockVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	if ctx.Err() != nil {
		return nil, volume.AsTransient(ctxend.Error(ctx))
	}
	if err := b.checkMapped(); err != nil {
		return nil, err
	}
	return b.plugin.metricsOf(ctx, b.stagingTarget(), b.published())
}

// checkMapped returns an error that wraps volume.ErrNotMounted for a missing link, and an uncertain one
// for an entry that is no link of the plugin.
func (b blockVolume) checkMapped() error {
	to, err := b.plugin.files.ReadLink(b.link())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", b.link(), volume.ErrNotMounted)
	case err == nil && to != b.published():
		err = fmt.Errorf("%s: %w", b.link(), errOtherLink)
	}
	if err != nil {
		return volume.AsUncertain(err)
	}
	return nil
}

var errOtherLink = errors.New("the link leads to another path")

// ConstructBlockVolumeSpec recovers the volume that is mapped at mapPath from vol_data.json, which may
// be of a kubelet. If the link at mapPath is missing the error wraps [volume.ErrNotMounted]; if the file
// is missing or broken, [volume.ErrUncertain].
func (p *Plugin) ConstructBlockVolumeSpec(ctx context.Context, podUID types.UID, volumeName, mapPath string) (_ volume.ReconstructedVolume, err error) {
	defer brief.Shorten(&err)
	b, err := p.blockVolume(volumeName, podUID)
	if err != nil {
		return volume.ReconstructedVolume{}, err
	}
	if at := field.NewPath("mapPath"); mapPath != b.link() {
		return volume.ReconstructedVolume{}, volume.Invalid(at, mapPath, "is not the path of the pod's block volume")
	}
	if ctx.Err() != nil {
		return volume.ReconstructedVolume{}, volume.AsTransient(ctxend.Error(ctx))
	}
	if err := b.checkMapped(); err != nil {
		return volume.ReconstructedVolume{}, err
	}
	data, err := p.readData(b.stagingTarget())
	if err == nil && data.SpecVolumeID != b.name {
		err = fmt.Errorf("%w: %s: %w", errBrokenData, b.paths.data, errOtherVolume)
	}
	if err != nil {
		return volume.ReconstructedVolume{}, volume.AsUncertain(err)
	}
	published, err := p.readData(b.podTarget())
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errBrokenData) {
		return volume.ReconstructedVolume{}, util.Transient(err)
	}
	found := volume.ReconstructedVolume{Spec: specOf(data, &published)}
	if isStagedDevice(data) {
		found.StagingPath = b.paths.staging
	}
	return found, nil
}

// isStagedDevice reports whether the file of a device shows a call that stages it. A kubelet records
// none.
func isStagedDevice(data voldata.Data) bool { return data.Call != nil && len(data.Call.Request) > 0 }
