package volume

import (
	"slices"

	"github.com/volumekit/volumekit/internal/optionlist"
	v1 "k8s.io/api/core/v1"
)

// MountOptions returns the mount options of the persistent volume, one in each element: those
// of spec.mountOptions and then those of its predecessor, the annotation
// [v1.MountOptionAnnotation]. Kubernetes reads the annotation alone if it exists; here
// neither hides the other. An element with several options, such as "nfsvers=4.1,hard", is
// split at its commas, except those in double quotes, as mount(8) does. Blanks around options
// and empty options are dropped. The options are not validated. The slice is the caller's.
func (s *Spec) MountOptions() (options []string) {
	if s == nil || s.PersistentVolume == nil {
		return nil
	}
	for _, written := range s.PersistentVolume.Spec.MountOptions {
		options = append(options, optionlist.Split(written)...)
	}
	return append(options, optionlist.Split(s.PersistentVolume.Annotations[v1.MountOptionAnnotation])...)
}

func (s *Spec) hasReadOnlyOption() bool { return slices.Contains(s.MountOptions(), "ro") }
