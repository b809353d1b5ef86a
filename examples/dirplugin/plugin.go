// Package dirplugin is a volume plugin whose volume is a directory of files, as another module would contain it: copy the
// folder, and replace the meaning of a volume. Its volumes hold an identity, which is issued to a pod. A pod has
//
//	volumes: [{name: identity, csi: {driver: identity.example.com, readOnly: true}}]
//
// podvolume.Dirs keeps the promises of volume.VolumePlugin: a tmpfs for each volume, and the record of it after a restart;
// atomicdir replaces the files all at once. volumetest.TestPlugin tests all promises: one call, in plugin_test.go.
package dirplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The name of the plugin, and of the driver in a pod.
const Name, Driver = "example.com/identity", "identity.example.com"

// A Plugin issues identities. Set both fields.
type Plugin struct {
	Mounter mount.Interface
	Issue   func(ctx context.Context, pod *v1.Pod) (map[string]atomicdir.File, error)
	host    volume.VolumeHost
	dirs    *podvolume.Dirs
}

func (p *Plugin) Init(_ context.Context, host volume.VolumeHost) error {
	if p.Issue == nil {
		return field.Required(field.NewPath("Issue"), "identities are issued by it")
	}
	p.host, p.dirs = host, podvolume.NewDirs(host, p.Mounter, Name)
	return nil
}

func (p *Plugin) GetPluginName() string { return Name }

func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	return spec != nil && spec.Volume != nil && spec.Volume.CSI != nil && spec.Volume.CSI.Driver == Driver
}

// RequiresRemount returns true: each SetUp issues the identity anew. The manager repeats it.
func (p *Plugin) RequiresRemount(*volume.Spec) bool { return true }

// GetVolumeName returns the volume's name in its pod.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) { return spec.Name(), p.check(spec) }

func (p *Plugin) check(spec *volume.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if !p.CanSupport(spec) {
		return field.Required(field.NewPath("spec", "volume", "csi", "driver"), "not an identity")
	}
	return nil
}

// NewMounter returns a mounter that issues the identity to the pod, and updates a volume that is set up already.
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	err := p.check(spec)
	if err == nil && pod == nil {
		err = field.Required(field.NewPath("pod"), "an identity is issued to a pod")
	}
	if err != nil {
		return nil, err
	}
	path, err := p.host.PodVolumeDir(pod.UID, Name, spec.Name())
	record, errOfRecord := json.Marshal(spec.Volume.CSI)
	if err := errors.Join(err, errOfRecord); err != nil {
		return nil, err
	}
	pod = pod.DeepCopy()
	setUp := func(ctx context.Context, dir string, args volume.MounterArgs) error {
		if args.DesiredSize != nil || args.SELinuxLabel != "" || args.FsGroup != nil {
			return fmt.Errorf("an identity has no size, label and group: %w", volume.ErrNotSupported)
		}
		return p.dirs.SetUp(ctx, dir, podvolume.Dir{Mode: 0o755, Mount: podvolume.Tmpfs(ctx, "mode=0755"), Record: record,
			Fill: func(ctx context.Context, dir string) error { return p.fill(ctx, dir, pod) }})
	}
	return podvolume.NewMounter(p.dirs, path, volume.Attributes{ReadOnly: true}, setUp), nil
}

// fill writes the files. A pod cannot lead it out of the directory.
func (p *Plugin) fill(ctx context.Context, dir string, pod *v1.Pod) error {
	files, err := p.Issue(ctx, pod)
	if err == nil {
		_, err = atomicdir.Write(ctx, dir, files, atomicdir.Options{})
	}
	return volume.AsTransient(err)
}

// NewUnmounter returns an unmounter that removes the files.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	path, err := p.host.PodVolumeDir(podUID, Name, volumeName)
	if err != nil {
		return nil, err
	}
	return podvolume.NewUnmounter(p.dirs, path), nil
}

// ConstructVolumeSpec recovers the volume from the record of the directory.
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, name, path string) (v volume.ReconstructedVolume, err error) {
	record, err := p.dirs.Find(ctx, path)
	source := &v1.CSIVolumeSource{}
	if err == nil {
		err = json.Unmarshal(record, source)
	}
	if err == nil {
		v.Spec = volume.NewSpecFromVolume(&v1.Volume{Name: name, VolumeSource: v1.VolumeSource{CSI: source}})
	}
	return v, err
}
