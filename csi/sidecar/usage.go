package sidecar

import (
	"fmt"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/accessmode"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A usage is how pods use a volume: the part of a volume capability beside the access mode.
type usage struct {
	isBlock bool
	fsType  string
	flags   []string // mount options
}

// capability returns the volume capability for a mode.
func (u usage) capability(mode v1.PersistentVolumeAccessMode, c capabilities) *csipb.VolumeCapability {
	capability := &csipb.VolumeCapability{AccessMode: accessmode.Of(mode, c.singleNodeMultiWriter)}
	if u.isBlock {
		capability.AccessType = &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}
		return capability
	}
	capability.AccessType = &csipb.VolumeCapability_Mount{
		Mount: &csipb.VolumeCapability_MountVolume{FsType: u.fsType, MountFlags: slices.Clone(u.flags)},
	}
	return capability
}

// capabilitiesFor returns a volume capability for each access mode of a claim.
func (u usage) capabilitiesFor(modes []v1.PersistentVolumeAccessMode, c capabilities) (all []*csipb.VolumeCapability, err error) {
	for i, mode := range modes {
		if err := accessmode.Check(field.NewPath("spec", "accessModes").Index(i), mode); err != nil {
			return nil, err
		}
		all = append(all, u.capability(mode, c))
	}
	return all, nil
}

// usageOf returns the usage of a volume.
func usageOf(pv *v1.PersistentVolume, defaultFSType string) usage {
	u := usage{isBlock: isBlock(pv.Spec.VolumeMode), fsType: defaultFSType, flags: pv.Spec.MountOptions}
	if pv.Spec.CSI.FSType != "" {
		u.fsType = pv.Spec.CSI.FSType
	}
	return u
}

func isBlock(mode *v1.PersistentVolumeMode) bool {
	return mode != nil && *mode == v1.PersistentVolumeBlock
}

// capabilityOf returns the one volume capability of calls that concern a volume as a whole.
func capabilityOf(pv *v1.PersistentVolume, defaultFSType string, c capabilities) (*csipb.VolumeCapability, error) {
	mode, err := widestMode(pv.Spec.AccessModes)
	if err != nil {
		return nil, err
	}
	return usageOf(pv, defaultFSType).capability(mode, c), nil
}

// widestMode returns the access mode that includes all modes of a volume. None includes ReadOnlyMany and a
// mode for one writer.
func widestMode(modes []v1.PersistentVolumeAccessMode) (v1.PersistentVolumeAccessMode, error) {
	at := field.NewPath("spec", "accessModes")
	for i, mode := range modes {
		if err := accessmode.Check(at.Index(i), mode); err != nil {
			return "", err
		}
	}
	has := func(mode v1.PersistentVolumeAccessMode) bool { return slices.Contains(modes, mode) }
	switch {
	case len(modes) == 0:
		return "", field.Required(at, "a call of the driver has a mode")
	case has(v1.ReadWriteMany):
		return v1.ReadWriteMany, nil
	case has(v1.ReadOnlyMany) && len(slices.Compact(slices.Clone(modes))) > 1:
		return "", fmt.Errorf("%w: no access mode of the specification includes ReadOnlyMany and a mode for one writer", field.Invalid(at, modes, "unsupported"))
	case has(v1.ReadWriteOnce):
		return v1.ReadWriteOnce, nil
	}
	return modes[0], nil
}
