package driver

import (
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// abilities are those of a plugin. A nil one is missing.
type abilities struct {
	paths       volume.PathVolumePlugin
	provisioner volume.ProvisionableVolumePlugin // with a deleter, or nil
	deleter     volume.DeletableVolumePlugin
	attacher    volume.AttachableVolumePlugin
	devices     volume.DeviceMountableVolumePlugin
	expander    volume.ExpandableVolumePlugin
	nodeExpand  volume.NodeExpandableVolumePlugin
	block       volume.BlockVolumePlugin // nil without Config.Mounter, too
	hasOptions  bool
	modes       []csipb.VolumeCapability_AccessMode_Mode
}

func abilitiesOf(c Config) (a abilities, err error) {
	at := field.NewPath("config", "plugin")
	var ok bool
	if a.paths, ok = volume.As[volume.PathVolumePlugin](c.Plugin); !ok {
		return a, field.Required(at, "must be a volume.PathVolumePlugin")
	}
	persistent, ok := volume.As[volume.PersistentVolumePlugin](c.Plugin)
	if !ok {
		return a, field.Required(at, "must be a volume.PersistentVolumePlugin")
	}
	a.modes = accessModes(persistent.GetAccessModes())
	a.provisioner, _ = volume.As[volume.ProvisionableVolumePlugin](c.Plugin)
	a.deleter, _ = volume.As[volume.DeletableVolumePlugin](c.Plugin)
	if a.deleter == nil { // the specification requires both
		a.provisioner = nil
	}
	a.attacher, _ = volume.As[volume.AttachableVolumePlugin](c.Plugin)
	a.devices, _ = volume.As[volume.DeviceMountableVolumePlugin](c.Plugin)
	a.expander, _ = volume.As[volume.ExpandableVolumePlugin](c.Plugin)
	a.nodeExpand, _ = volume.As[volume.NodeExpandableVolumePlugin](c.Plugin)
	if c.OfflineExpansion && a.expander == nil {
		return a, field.Invalid(field.NewPath("config", "offlineExpansion"), true, "the plugin is no volume.ExpandableVolumePlugin")
	}
	if c.Mounter != nil {
		a.block, _ = volume.As[volume.BlockVolumePlugin](c.Plugin)
	}
	if options, ok := volume.As[volume.MountOptionsVolumePlugin](c.Plugin); ok {
		a.hasOptions = options.SupportsMountOption()
	}
	return a, nil
}

// controls reports whether the driver has a controller service.
func (a *abilities) controls() bool {
	return a.provisioner != nil || a.attacher != nil || a.expander != nil
}

// stages reports whether the driver has NodeStageVolume.
func (a *abilities) stages() bool { return a.devices != nil || a.block != nil }

// accessModes returns the modes of the specification that the plugin's modes allow.
func accessModes(of []v1.PersistentVolumeAccessMode) (modes []csipb.VolumeCapability_AccessMode_Mode) {
	for mode := range csipb.VolumeCapability_AccessMode_Mode_name {
		m := csipb.VolumeCapability_AccessMode_Mode(mode)
		if pv, ok := pvModes[m]; ok && slices.Contains(of, pv) {
			modes = append(modes, m)
		}
	}
	return modes
}

// pvModes are the access modes of a persistent volume for those of the specification.
var pvModes = map[csipb.VolumeCapability_AccessMode_Mode]v1.PersistentVolumeAccessMode{
	csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        v1.ReadWriteOnce,
	csipb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   v1.ReadWriteOnce,
	csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  v1.ReadWriteOnce,
	csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: v1.ReadWriteOncePod,
	csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:    v1.ReadOnlyMany,
	csipb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER:  v1.ReadWriteMany,
	csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:   v1.ReadWriteMany,
}

func isReadOnly(mode csipb.VolumeCapability_AccessMode_Mode) bool {
	return mode == csipb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY || mode == csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
}

// isShared reports whether a node may publish a volume of the mode at several paths.
func isShared(mode csipb.VolumeCapability_AccessMode_Mode) bool {
	switch mode {
	case csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER, csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		csipb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER, csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return true
	}
	return false
}
