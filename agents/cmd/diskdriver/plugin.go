package main

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
)

// pluginName names the directories of the plugin, and the kind of its volumes.
const pluginName = "volumekit.io/disk"

// A plugin is the volume plugin of the disks of a store. The name of a disk is that of its persistent volume.
type plugin struct {
	provisioner string // of the disks that the plugin creates and deletes
	node        string // on which the plugin mounts disks
	store       store
	mounter     mount.Interface
	disks       *disk.Disks

	host   volume.VolumeHost // the rest since Init
	mounts *podvolume.Mounts
}

var (
	_ volume.VolumePlugin               = (*plugin)(nil)
	_ volume.PersistentVolumePlugin     = (*plugin)(nil)
	_ volume.MountOptionsVolumePlugin   = (*plugin)(nil)
	_ volume.PathVolumePlugin           = (*plugin)(nil)
	_ volume.ProvisionableVolumePlugin  = (*plugin)(nil)
	_ volume.DeletableVolumePlugin      = (*plugin)(nil)
	_ volume.AttachableVolumePlugin     = (*plugin)(nil)
	_ volume.DeviceUseVolumePlugin      = (*plugin)(nil)
	_ volume.ExpandableVolumePlugin     = (*plugin)(nil)
	_ volume.NodeExpandableVolumePlugin = (*plugin)(nil)
	_ volume.BlockVolumePlugin          = (*plugin)(nil)
	_ volume.BlockProvisioner           = (*plugin)(nil)
)

func newPlugin(provisioner, node, dir string, mounter mount.Interface) *plugin {
	return &plugin{provisioner: provisioner, node: node, store: newStore(dir), mounter: mounter, disks: disk.New(disk.Config{Mounter: mounter})}
}

// Init implements [volume.VolumePlugin].
func (p *plugin) Init(_ context.Context, host volume.VolumeHost) error {
	p.host, p.mounts = host, podvolume.NewMounts(host, p.mounter)
	return nil
}

// GetPluginName implements [volume.VolumePlugin].
func (p *plugin) GetPluginName() string { return pluginName }

// newPersistentVolume returns the volume of a disk.
func newPersistentVolume(name string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.FlexVolume = &v1.FlexPersistentVolumeSource{Driver: pluginName}
	return pv
}

// CanSupport implements [volume.VolumePlugin].
func (p *plugin) CanSupport(spec *volume.Spec) bool {
	if spec == nil || spec.PersistentVolume == nil {
		return false
	}
	flex := spec.PersistentVolume.Spec.FlexVolume
	return flex != nil && flex.Driver == pluginName
}

// GetVolumeName implements [volume.VolumePlugin]: it returns the name of the disk.
func (p *plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	if !p.CanSupport(spec) {
		return "", volume.Invalid(field.NewPath("spec", "flexVolume", "driver"), "", "must be "+pluginName)
	}
	if err := spec.Validate(); err != nil {
		return "", err
	}
	return spec.Name(), nil
}

// GetAccessModes implements [volume.PersistentVolumePlugin].
func (p *plugin) GetAccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOncePod}
}

// SupportsMountOption implements [volume.MountOptionsVolumePlugin].
func (p *plugin) SupportsMountOption() bool { return true }

// SupportsBlock implements [volume.BlockProvisioner].
func (p *plugin) SupportsBlock(context.Context) bool { return true }

// A provisioner creates a disk.
type provisioner struct {
	plugin  *plugin
	options volume.VolumeOptions
	size    int64
}

// NewProvisioner implements [volume.ProvisionableVolumePlugin]. The class has no parameters.
func (p *plugin) NewProvisioner(options volume.VolumeOptions) (volume.Provisioner, error) {
	if err := volume.ValidatePathComponent(field.NewPath("pvName"), options.PVName); err != nil {
		return nil, err
	}
	class, attributes := options.StorageClass, options.VolumeAttributesClass.Name
	if class.Provisioner != "" && class.Provisioner != p.provisioner {
		return nil, &volume.IgnoredError{Reason: "the class is of another provisioner"}
	}
	for key, value := range class.Parameters {
		at := field.NewPath("storageClass", "parameters").Key(input.Shorten(key))
		return nil, fmt.Errorf("%w: %w", volume.Invalid(at, value, "the class of disks has no parameters"), volume.ErrInfeasible)
	}
	if attributes != "" {
		at := field.NewPath("volumeAttributesClass")
		return nil, fmt.Errorf("%w: %w", volume.Invalid(at, attributes, "disks have no attributes"), volume.ErrInfeasible)
	}
	size := int64(smallest)
	if options.PVC != nil {
		request, err := imageSize(options.PVC.Spec.Resources.Requests[v1.ResourceStorage])
		if err != nil {
			return nil, err
		}
		size = max(size, request)
	}
	return &provisioner{p, options, size}, nil
}

const smallest, unit = 16 << 20, 1 << 20 // bytes

// imageSize returns the bytes of an image of a requested size.
func imageSize(request resource.Quantity) (int64, error) {
	bytes, err := quantity.Bytes(&request)
	if err == nil && bytes > math.MaxInt64-unit {
		err = quantity.ErrTooLarge
	}
	if err != nil {
		at := field.NewPath("resources", "requests", "storage")
		return 0, fmt.Errorf("%w: %w", volume.Invalid(at, quantity.Text(&request), err.Error()), volume.ErrInfeasible)
	}
	return (bytes + unit - 1) / unit * unit, nil
}

// Provision implements [volume.Provisioner].
func (p *provisioner) Provision(ctx context.Context) (*v1.PersistentVolume, error) {
	name := p.options.PVName
	size, err := p.plugin.store.create(ctx, name, p.plugin.provisioner, p.size)
	if err == nil && size < p.size {
		err = fmt.Errorf("the disk exists with %d bytes", size)
	}
	if err != nil {
		return nil, fmt.Errorf("create disk %s: %w", input.Quote(name), err)
	}
	pv := newPersistentVolume(name)
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	pv.Spec.AccessModes = p.plugin.GetAccessModes()
	pv.Spec.MountOptions = p.options.StorageClass.MountOptions
	if p.options.PVC != nil {
		pv.Spec.VolumeMode = p.options.PVC.Spec.VolumeMode
	}
	if policy := p.options.StorageClass.ReclaimPolicy; policy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *policy
	}
	return pv, nil
}

// A deleter deletes a disk.
type deleter struct {
	plugin *plugin
	disk   string
}

// NewDeleter implements [volume.DeletableVolumePlugin].
func (p *plugin) NewDeleter(spec *volume.Spec) (volume.Deleter, error) {
	name, err := p.GetVolumeName(spec)
	return &deleter{p, name}, err
}

// Delete implements [volume.Deleter].
func (d *deleter) Delete(ctx context.Context) error {
	if err := d.plugin.store.remove(ctx, d.disk, d.plugin.provisioner); err != nil {
		return fmt.Errorf("delete disk %s: %w", input.Quote(d.disk), err)
	}
	return nil
}

// ExpandVolumeDevice implements [volume.ExpandableVolumePlugin]. The node has to grow the device, and its file system.
func (p *plugin) ExpandVolumeDevice(ctx context.Context, req volume.ExpandRequest) (volume.ExpandResult, error) {
	name, err := p.GetVolumeName(req.Spec)
	if err != nil {
		return volume.ExpandResult{}, err
	}
	size, err := imageSize(req.NewSize)
	if err == nil {
		size, err = p.store.grow(ctx, name, size)
	}
	if err != nil {
		return volume.ExpandResult{}, fmt.Errorf("grow disk %s: %w", input.Quote(name), err)
	}
	return volume.ExpandResult{Size: *resource.NewQuantity(size, resource.BinarySI), NodeExpansionRequired: true}, nil
}

// An attacher attaches and detaches disks, and waits for them on a node.
type attacher struct{ plugin *plugin }

// NewAttacher implements [volume.AttachableVolumePlugin].
func (p *plugin) NewAttacher() (volume.Attacher, error) { return attacher{p}, nil }

// NewDetacher implements [volume.AttachableVolumePlugin].
func (p *plugin) NewDetacher() (volume.Detacher, error) { return attacher{p}, nil }

// CanAttach implements [volume.AttachableVolumePlugin].
func (p *plugin) CanAttach(context.Context, *volume.Spec) (bool, error) { return true, nil }

// Attach implements [volume.Attacher]. The disk has a device on the node once it is used.
func (a attacher) Attach(ctx context.Context, spec *volume.Spec, node types.NodeName) (devicePath string, err error) {
	name, err := a.plugin.GetVolumeName(spec)
	if err == nil {
		err = volume.ValidatePathComponent(field.NewPath("node"), string(node))
	}
	if err != nil {
		return "", err
	}
	return "", a.plugin.store.attach(ctx, name, string(node))
}

// VolumesAreAttached implements [volume.Attacher].
func (a attacher) VolumesAreAttached(ctx context.Context, specs []*volume.Spec, node types.NodeName) (map[*volume.Spec]bool, error) {
	are := make(map[*volume.Spec]bool, len(specs))
	for _, spec := range specs {
		name, err := a.plugin.GetVolumeName(spec)
		if err == nil {
			are[spec], err = a.plugin.store.isAttached(ctx, name, string(node))
		}
		if err != nil {
			return nil, err
		}
	}
	return are, nil
}

// WaitForAttach implements [volume.Attacher]. It looks at nothing: MountDevice refuses a disk that is not attached to the
// node.
func (a attacher) WaitForAttach(ctx context.Context, spec *volume.Spec, devicePath string, _ *v1.Pod) (string, error) {
	if ctx.Err() != nil {
		return "", volume.AsTransient(ctxend.Error(ctx))
	}
	_, err := a.plugin.GetVolumeName(spec)
	return devicePath, err
}

// Detach implements [volume.Detacher].
func (a attacher) Detach(ctx context.Context, req volume.DetachRequest) error {
	err := volume.ValidatePathComponent(field.NewPath("volumeName"), req.VolumeName)
	if err == nil {
		err = volume.ValidatePathComponent(field.NewPath("node"), string(req.Node))
	}
	if err != nil {
		return err
	}
	return a.plugin.store.detach(ctx, req.VolumeName, string(req.Node))
}
