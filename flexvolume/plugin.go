package flexvolume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"sync/atomic"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// commonName is the directory of all drivers among those of plugins.
const commonName = "kubernetes.io/flexvolume"

// Plugin is the volume plugin of one driver. [New] returns one. Its methods are safe for concurrent use.
type Plugin struct {
	config    Config
	host      volume.VolumeHost
	mounts    *podvolume.Mounts
	notes     *podvolume.Notes
	disks     *disk.Disks
	mountsDir string // of device mounts
	run       runner
	inspect   inspector
	ready     atomic.Pointer[installed] // the last driver whose init has succeeded
	running   keylock.Map               // the driver's processes, see call.key
	state     keylock.Map               // held by the goroutine that reads the state of the driver
	init      lastInit                  // guarded by state
	boot      string                    // the start of the system
}

var (
	_ volume.VolumePlugin                = (*Plugin)(nil)
	_ volume.PathVolumePlugin            = (*Plugin)(nil)
	_ volume.PersistentVolumePlugin      = (*Plugin)(nil)
	_ volume.BackendVolumePlugin         = (*Plugin)(nil)
	_ volume.AttachableVolumePlugin      = (*Plugin)(nil)
	_ volume.DeviceMountableVolumePlugin = (*Plugin)(nil)
	_ volume.ExpandableVolumePlugin      = (*Plugin)(nil)
	_ volume.NodeExpandableVolumePlugin  = (*Plugin)(nil)
)

// New returns the plugin of a driver. Init returns an error if the configuration is invalid.
func New(config Config) *Plugin {
	config.Dir = cmp.Or(config.Dir, DefaultDir)
	config.Timeout = cmp.Or(config.Timeout, DefaultTimeout)
	return &Plugin{config: config, run: runProgram, inspect: inspect}
}

// Init implements [volume.VolumePlugin]. It does not call the driver, which need not be installed yet.
func (p *Plugin) Init(_ context.Context, host volume.VolumeHost) error {
	if err := p.config.check(); err != nil {
		return fmt.Errorf("flexvolume: %w", err)
	}
	if err := checkDriver(field.NewPath("config", "driver"), p.config.Driver); err != nil {
		return fmt.Errorf("flexvolume: %w", err)
	}
	common, err := host.PluginDir(commonName)
	if err != nil {
		return fmt.Errorf("flexvolume: %w", err)
	}
	if p.boot, err = bootid.Read(); err != nil {
		return fmt.Errorf("flexvolume: %w", err)
	}
	p.host, p.mountsDir = host, path.Join(common, p.config.Driver, "mounts")
	p.mounts = podvolume.NewMounts(host, p.config.Mounter)
	p.notes = podvolume.NewNotes(p.mounts, p.config.Driver)
	if p.disks = p.config.Disks; p.disks == nil {
		p.disks = disk.New(disk.Config{Mounter: p.config.Mounter})
	}
	return nil
}

// GetPluginName returns the name of the driver, as a kubelet names the plugin.
func (p *Plugin) GetPluginName() string { return p.config.Driver }

// CanSupport reports whether the volume is one of the driver.
func (p *Plugin) CanSupport(spec *volume.Spec) bool {
	return isFlexvolume(spec) && spec.Driver() == p.config.Driver
}

// GetVolumeName returns the name of the specification, as a kubelet does: two persistent volumes with the same
// options have different names.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	s, err := p.sourceOf(spec)
	return s.name, err
}

// GetBackendName returns the driver.
func (p *Plugin) GetBackendName(spec *volume.Spec) (string, error) {
	s, err := p.sourceOf(spec)
	if err != nil {
		return "", err
	}
	return s.driver, nil
}

// GetAccessModes returns ReadWriteOnce and ReadOnlyMany, as a kubelet does.
func (p *Plugin) GetAccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany}
}

// NewMounter validates the specification. The error of an invalid one is a [*field.Error]; that of a block volume wraps
// [volume.ErrNotSupported].
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	s, err := p.sourceOf(spec)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	v, err := p.podVolume(s.name, pod.UID)
	if err != nil {
		return nil, err
	}
	return &mounter{podVolume: v, source: s, pod: pod}, nil
}

// NewUnmounter validates the names.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	v, err := p.podVolume(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return &unmounter{v}, nil
}

// NewUnmounterAt implements [volume.PathVolumePlugin].
func (p *Plugin) NewUnmounterAt(path string) (volume.Unmounter, error) {
	at, err := p.mounts.Below(field.NewPath("path"), path)
	if err != nil {
		return nil, err
	}
	return &unmounter{podVolume{p, at}}, nil
}

var errNotInitialised = errors.New("flexvolume: the plugin is not initialised")

// podVolume returns the place of a volume in a pod after validating both names.
func (p *Plugin) podVolume(name string, podUID types.UID) (podVolume, error) {
	if p.host == nil {
		return podVolume{}, errNotInitialised
	}
	dir, err := p.host.PodVolumeDir(podUID, p.config.Driver, name)
	return podVolume{p, dir}, err
}
