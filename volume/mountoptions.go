package volume

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// MountOptions returns the mount options of the persistent volume, one in each element: those
// of spec.mountOptions and then those of its predecessor, the annotation
// [v1.MountOptionAnnotation]. Kubernetes reads the annotation alone if it exists; here
// neither hides the other. An element with several options, such as "nfsvers=4.1,hard", is
// split at its commas, as Kubernetes does with the annotation: quotes do not keep an option
// together. Blanks around options and empty options are dropped. The options are not
// validated. The slice is the caller's.
func (s *Spec) MountOptions() (options []string) {
	if s == nil || s.PersistentVolume == nil {
		return nil
	}
	for _, written := range s.PersistentVolume.Spec.MountOptions {
		options = append(options, splitOptions(written)...)
	}
	return append(options, splitOptions(s.PersistentVolume.Annotations[v1.MountOptionAnnotation])...)
}

// splitOptions splits at commas and drops blanks around options and empty ones.
func splitOptions(list string) (options []string) {
	for option := range strings.SplitSeq(list, ",") {
		if option = strings.TrimSpace(option); option != "" {
			options = append(options, option)
		}
	}
	return options
}

func (s *Spec) hasReadOnlyOption() bool { return slices.Contains(s.MountOptions(), "ro") }
