// Package accessmode has the access modes of CSI calls for those of persistent volumes.
package accessmode

import (
	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// modes are the modes of calls. A driver with the capability SINGLE_NODE_MULTI_WRITER gets those of
// singleNodeModes instead.
var (
	modes = map[v1.PersistentVolumeAccessMode]csipb.VolumeCapability_AccessMode_Mode{
		v1.ReadWriteOnce:    csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
		v1.ReadOnlyMany:     csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		v1.ReadWriteMany:    csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
		v1.ReadWriteOncePod: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	}
	singleNodeModes = map[v1.PersistentVolumeAccessMode]csipb.VolumeCapability_AccessMode_Mode{
		v1.ReadWriteOnce:    csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
		v1.ReadWriteOncePod: csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	}
)

// Check returns an error for an unknown mode.
func Check(at *field.Path, mode v1.PersistentVolumeAccessMode) error {
	if _, ok := modes[mode]; !ok {
		return volume.Invalid(at, string(mode), "unknown access mode")
	}
	return nil
}

// IsSame reports whether two modes of calls can be those of one access mode, for a driver with the
// capability and for one without it.
func IsSame(a, b csipb.VolumeCapability_AccessMode_Mode) bool {
	if a == b {
		return true
	}
	for mode, single := range singleNodeModes {
		if plain := modes[mode]; a == plain && b == single || a == single && b == plain {
			return true
		}
	}
	return false
}

// Of returns the mode of calls for a volume. singleNodeMultiWriter is the capability of the driver.
func Of(mode v1.PersistentVolumeAccessMode, singleNodeMultiWriter bool) *csipb.VolumeCapability_AccessMode {
	is := modes[mode]
	if single, ok := singleNodeModes[mode]; ok && singleNodeMultiWriter {
		is = single
	}
	return &csipb.VolumeCapability_AccessMode{Mode: is}
}
