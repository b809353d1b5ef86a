package volume

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// A LeftoverVolumePlugin limits the volumes that an unrecognized directory may belong to.
type LeftoverVolumePlugin interface {
	// GetLeftoverScope returns the known facts about the volume in a directory of a pod, after
	// ConstructVolumeSpec, or ConstructBlockVolumeSpec, has failed for it. Volumes to which
	// the directory may belong stay attached and mounted while the directory exists; other
	// volumes do not wait. It changes nothing. An error, or the zero value, is no fact: then
	// the directory may belong to each volume of its name.
	GetLeftoverScope(ctx context.Context, dir LeftoverDir) (LeftoverScope, error)
}

// A LeftoverDir is a directory of a pod's volume.
type LeftoverDir struct {
	PodUID     types.UID
	VolumeName string // see [Spec.Name]
	Path       string
	Block      bool // it is a pod's block volume
}

// A LeftoverScope selects the volumes of a plugin to which a directory may belong: those that
// match all of its values. Empty values match all volumes.
type LeftoverScope struct {
	VolumeName string // as GetVolumeName of [VolumePlugin] returns it
	Driver     string // of CSI or FlexVolume, see [Spec.Driver]
	DevicePath string // as WaitForAttach of [Attacher] returns it
}

// MayBe reports whether a volume of which other is known may be one of the scope.
func (s LeftoverScope) MayBe(other LeftoverScope) bool {
	agree := func(a, b string) bool { return a == "" || b == "" || a == b }
	return agree(s.VolumeName, other.VolumeName) && agree(s.Driver, other.Driver) && agree(s.DevicePath, other.DevicePath)
}

// Driver returns the name of the CSI or FlexVolume driver that the volume is of, or "" if
// it is of neither, and for nil.
func (s *Spec) Driver() string {
	switch {
	case s == nil:
	case s.Volume != nil && s.Volume.CSI != nil:
		return s.Volume.CSI.Driver
	case s.Volume != nil && s.Volume.FlexVolume != nil:
		return s.Volume.FlexVolume.Driver
	case s.PersistentVolume != nil && s.PersistentVolume.Spec.CSI != nil:
		return s.PersistentVolume.Spec.CSI.Driver
	case s.PersistentVolume != nil && s.PersistentVolume.Spec.FlexVolume != nil:
		return s.PersistentVolume.Spec.FlexVolume.Driver
	}
	return ""
}
