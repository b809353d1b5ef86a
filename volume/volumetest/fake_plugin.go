package volumetest

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
)

// FakeConfig configures a [FakePlugin]. The zero value is ready for use.
type FakeConfig struct {
	// Name of the plugin. Empty: "volumekit.io/fake".
	Name string
	// Mounter is the kernel. Nil: a new mounttest.Fake.
	Mounter mount.Interface
	// CanSupport reports whether a volume is the plugin's. Nil: it is for volumes of
	// NewSpec, and CSI volumes in pods that are written like them.
	CanSupport func(spec *volume.Spec) bool
	// Directory returns the directory that a volume shows. Nil: the directory that was
	// passed to NewSpec. Set it together with CanSupport.
	Directory func(spec *volume.Spec) (string, error)
	// Size returns the size of a volume's storage, in bytes. Nil: as large as any request.
	Size func(spec *volume.Spec) int64
	// MaxSize is the largest size that ExpandVolumeDevice gives a volume, in bytes. 0: no limit.
	MaxSize int64
	// OfflineExpansion makes ExpandVolumeDevice refuse volumes that are attached.
	OfflineExpansion bool
	// MaxVolumes is the largest number of attached volumes of a node. 0: no limit.
	MaxVolumes int
	// Nodes are the nodes that storage can be provisioned for, see NewProvisioner. Empty: all.
	Nodes []types.NodeName
	// NoAttach and NoDeviceMount make CanAttach and CanDeviceMount return false.
	NoAttach, NoDeviceMount bool
}

// A FakePlugin is a volume plugin with every ability. A volume shows a directory of this node,
// which NewSpec names; attaching, expanding and recycling happen in memory alone. Of the
// arguments of SetUp only ReadOnly has an effect. [NewFakePlugin] returns one.
type FakePlugin struct {
	config FakeConfig
	calls  calls
	locks  keylock.Map // one for each mount point

	mu       sync.Mutex // guards the rest
	host     volume.VolumeHost
	attached map[string]map[types.NodeName]bool // by volume name
	expanded map[string]resource.Quantity       // by volume name
}

var _ volume.VolumePlugin = (*FakePlugin)(nil)

// directoryAttribute is the attribute of a CSI volume that has the directory.
const directoryAttribute = "directory"

// NewFakePlugin returns a fake plugin.
func NewFakePlugin(config FakeConfig) *FakePlugin {
	if config.Name == "" {
		config.Name = "volumekit.io/fake"
	}
	if config.Mounter == nil {
		config.Mounter = mounttest.NewFake(mount.Config{})
	}
	p := &FakePlugin{config: config, attached: map[string]map[types.NodeName]bool{}, expanded: map[string]resource.Quantity{}}
	if config.CanSupport == nil {
		p.config.CanSupport = p.isOwnVolume
	}
	if config.Directory == nil {
		p.config.Directory = p.directory
	}
	return p
}

// NewSpec returns a volume that the plugin supports: a persistent volume that shows an existing
// directory, an absolute path without symbolic links.
func (p *FakePlugin) NewSpec(name, directory string) *volume.Spec {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{
		Driver:           p.config.Name,
		VolumeHandle:     directory,
		VolumeAttributes: map[string]string{directoryAttribute: directory},
	}
	return volume.NewSpecFromPersistentVolume(pv, false)
}

// Mounter returns the plugin's mounter.
func (p *FakePlugin) Mounter() mount.Interface { return p.config.Mounter }

// Init implements [volume.VolumePlugin].
func (p *FakePlugin) Init(ctx context.Context, host volume.VolumeHost) error {
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

func (p *FakePlugin) isOwnVolume(spec *volume.Spec) bool {
	driver, _ := csi(spec)
	return driver == p.config.Name
}

// source validates a volume and returns its directory.
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

// csi returns the driver and the attributes of a CSI volume, of a pod or a persistent volume.
func csi(spec *volume.Spec) (driver string, attributes map[string]string) {
	if pv := spec.PersistentVolume; pv != nil && pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeAttributes
	}
	if v := spec.Volume; v != nil && v.CSI != nil {
		return v.CSI.Driver, v.CSI.VolumeAttributes
	}
	return "", nil
}

// getHost returns the host, or an error if the plugin was not registered.
func (p *FakePlugin) getHost() (volume.VolumeHost, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host == nil {
		return nil, fmt.Errorf("plugin %s has no host: Init was not called", p.config.Name)
	}
	return p.host, nil
}
