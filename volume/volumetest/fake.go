package volumetest

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// FakeConfig configures a [FakePlugin]. The zero value is ready for use.
type FakeConfig struct {
	// Name of the plugin. Empty: "volumekit.io/fake".
	Name string
	// Mounter is the kernel. Nil: a new mounttest.Fake.
	Mounter mount.Interface
	// CanSupport says which volumes are the plugin's. Nil: those that NewSpec
	// makes, and CSI volumes in pods that are written like them.
	CanSupport func(spec *volume.Spec) bool
	// Directory returns the directory that a volume shows. Nil: the one that
	// NewSpec was given. Set it together with CanSupport.
	Directory func(spec *volume.Spec) (string, error)
	// Size returns how much storage is behind a volume, in bytes. Nil: as much as anybody
	// asks for.
	Size func(spec *volume.Spec) int64
	// NoAttach and NoDeviceMount make CanAttach and CanDeviceMount say no.
	NoAttach, NoDeviceMount bool
}

// A FakePlugin is a volume plugin with every ability. A volume shows a directory
// of this node, which NewSpec names; attaching, expanding and recycling happen
// in memory alone. Of the arguments of SetUp only ReadOnly has an effect. Make one with
type FakePlugin struct {
	config FakeConfig
	calls  calls
	locks  locks // one for each path that something is mounted at

	mu       sync.Mutex // guards the rest
	host     volume.VolumeHost
	attached map[string]map[types.NodeName]bool // by volume name
}

var _ volume.VolumePlugin = (*FakePlugin)(nil)

// directoryAttribute holds the directory in a CSI volume's attributes.
const directoryAttribute = "directory"

// NewFakePlugin returns a fake plugin.
func NewFakePlugin(config FakeConfig) *FakePlugin {
	if config.Name == "" {
		config.Name = "volumekit.io/fake"
	}
	if config.Mounter == nil {
		config.Mounter = mounttest.NewFake(mount.Config{})
	}
	p := &FakePlugin{config: config, attached: map[string]map[types.NodeName]bool{}}
	if config.CanSupport == nil {
		p.config.CanSupport = p.isOurs
	}
	if config.Directory == nil {
		p.config.Directory = p.directory
	}
	return p
}

// NewSpec returns a volume that the plugin supports: a persistent volume that
// shows an existing directory, an absolute path without symbolic links.
func (p *FakePlugin) NewSpec(name, directory string) *volume.Spec {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{
		Driver:           p.config.Name,
		VolumeHandle:     directory,
		VolumeAttributes: map[string]string{directoryAttribute: directory},
	}
	return volume.NewSpecFromPersistentVolume(pv, false)
}

// Mounter returns the kernel that the plugin mounts with.
func (p *FakePlugin) Mounter() mount.Interface { return p.config.Mounter }

// Init implements [volume.VolumePlugin].
func (p *FakePlugin) Init(host volume.VolumeHost) error {
	return p.call(context.Background(), Init, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.host = host
		return nil
	})
}

// GetPluginName implements [volume.VolumePlugin].
func (p *FakePlugin) GetPluginName() string { return p.config.Name }

// GetVolumeName implements [volume.VolumePlugin]. It is the directory.
func (p *FakePlugin) GetVolumeName(spec *volume.Spec) (string, error) {
	if err := p.count(GetVolumeName); err != nil {
		return "", err
	}
	return p.source(spec)
}

// CanSupport implements [volume.VolumePlugin].
func (p *FakePlugin) CanSupport(spec *volume.Spec) bool {
	_ = p.count(CanSupport)
	return p.supports(spec)
}

func (p *FakePlugin) supports(spec *volume.Spec) bool {
	return spec != nil && p.config.CanSupport(spec)
}

func (p *FakePlugin) isOurs(spec *volume.Spec) bool {
	driver, _ := csi(spec)
	return driver == p.config.Name
}

// source returns the directory of a volume that has been checked.
func (p *FakePlugin) source(spec *volume.Spec) (string, error) {
	if err := spec.Validate(); err != nil {
		return "", err
	}
	if !p.supports(spec) {
		return "", fmt.Errorf("volume %q is not one of %s: %w", spec.Name(), p.config.Name, volume.ErrNotSupported)
	}
	source, err := p.config.Directory(spec)
	if err != nil {
		return "", err
	}
	return source, checkPaths(source, "/target")
}

func (p *FakePlugin) directory(spec *volume.Spec) (string, error) {
	_, attributes := csi(spec)
	directory := attributes[directoryAttribute]
	if directory == "" {
		return "", field.Required(field.NewPath("spec", "csi", "volumeAttributes").Key(directoryAttribute), "")
	}
	return directory, nil
}

// csi returns what a CSI volume says, wherever it is written.
func csi(spec *volume.Spec) (driver string, attributes map[string]string) {
	if pv := spec.PersistentVolume; pv != nil && pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeAttributes
	}
	if v := spec.Volume; v != nil && v.CSI != nil {
		return v.CSI.Driver, v.CSI.VolumeAttributes
	}
	return "", nil
}

// getHost fails on a plugin that no register has given a host.
func (p *FakePlugin) getHost() (volume.VolumeHost, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host == nil {
		return nil, fmt.Errorf("plugin %s has no host: Init was not called", p.config.Name)
	}
	return p.host, nil
}
