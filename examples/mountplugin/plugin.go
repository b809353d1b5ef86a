// Package mountplugin is a volume plugin whose volume is a mount, as another module would contain it: copy the folder,
// and replace the meaning of a volume. Its volumes are shares of the node: directories in one directory. A pod has
//
//	volumes: [{name: models, csi: {driver: share.example.com, readOnly: true, volumeAttributes: {share: models}}}]
//
// podvolume.Mounts keeps the promises of volume.VolumePlugin: the directory, the mount, one operation at a time, errors of
// the right kind. The plugin validates the specification, and recovers it after a restart. volumetest.TestPlugin tests all
// promises: one call, in plugin_test.go.
package mountplugin

import (
	"context"
	"fmt"
	"path"
	"path/filepath"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The name of the plugin, and those of a share in a pod.
const Name, Driver, Attribute = "example.com/share", "share.example.com", "share"

// A Plugin mounts the directories in Root. Set both fields.
type Plugin struct {
	Mounter mount.Interface
	Root    string
	root    string // without symbolic links
	host    volume.VolumeHost
	mounts  *podvolume.Mounts
}

// Init resolves the root once.
func (p *Plugin) Init(_ context.Context, host volume.VolumeHost) (err error) {
	p.host, p.mounts = host, podvolume.NewMounts(host, p.Mounter)
	if !filepath.IsAbs(p.Root) {
		return field.Invalid(field.NewPath("Root"), p.Root, "must be absolute")
	}
	p.root, err = filepath.EvalSymlinks(p.Root)
	return err
}

func (p *Plugin) GetPluginName() string { return Name }

func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	return spec != nil && spec.Volume != nil && spec.Volume.CSI != nil && spec.Volume.CSI.Driver == Driver
}

// GetVolumeName returns the name of the share, which all pods that use it have in common. It becomes a part of a path.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	if err := spec.Validate(); err != nil {
		return "", err
	}
	at := field.NewPath("spec", "volume", "csi")
	if !p.CanSupport(spec) {
		return "", field.Required(at.Child("driver"), "not a share")
	}
	share := spec.Volume.CSI.VolumeAttributes[Attribute]
	return share, volume.ValidatePathComponent(at.Child("volumeAttributes").Key(Attribute), share)
}

// NewMounter returns a mounter that bind mounts the share, read-only from the first instant if required.
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	share, err := p.GetVolumeName(spec)
	if err == nil && pod == nil {
		err = field.Required(field.NewPath("pod"), "a share is mounted for a pod")
	}
	if err != nil {
		return nil, err
	}
	path, err := p.host.PodVolumeDir(pod.UID, Name, spec.Name())
	if err != nil {
		return nil, err
	}
	source, readOnly := filepath.Join(p.root, share), spec.IsReadOnly()
	setUp := func(ctx context.Context, dir string, args volume.MounterArgs) error {
		if args.DesiredSize != nil || args.SELinuxLabel != "" || args.FsGroup != nil {
			return fmt.Errorf("a share has no size, label and group: %w", volume.ErrNotSupported)
		}
		req := mount.Request{Source: source}
		if readOnly || args.ReadOnly {
			req.Options = []string{"ro"}
		}
		return p.mounts.SetUp(ctx, dir, req)
	}
	return podvolume.NewMounter(p.mounts, path, volume.Attributes{ReadOnly: readOnly}, setUp), nil
}

// NewUnmounter returns an unmounter. The files of the share stay.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	path, err := p.host.PodVolumeDir(podUID, Name, volumeName)
	if err != nil {
		return nil, err
	}
	return podvolume.NewUnmounter(p.mounts, path), nil
}

// ConstructVolumeSpec recovers the share from the mount table; the plugin keeps no records.
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, name, mountPath string) (v volume.ReconstructedVolume, err error) {
	at, view, err := p.mounts.At(ctx, mountPath)
	if err != nil {
		return v, err
	}
	for origin := range view.Origins(at.Mountpoint) {
		if path.Dir(origin) == p.root {
			v.Spec = newSpec(name, path.Base(origin), at.Flags&mount.ReadOnly != 0)
			return v, nil
		}
	}
	return v, volume.AsUncertain(fmt.Errorf("mount at %s: not a share", mountPath))
}

func newSpec(volumeName, share string, readOnly bool) *volume.Spec {
	source := &v1.CSIVolumeSource{Driver: Driver, ReadOnly: &readOnly, VolumeAttributes: map[string]string{Attribute: share}}
	return volume.NewSpecFromVolume(&v1.Volume{Name: volumeName, VolumeSource: v1.VolumeSource{CSI: source}})
}
