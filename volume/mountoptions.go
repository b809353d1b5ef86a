package volume

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// MountOptions returns the mount options of the persistent volume: those of
// spec.mountOptions and then those of the annotation that came before it
// ([v1.MountOptionAnnotation]). Kubernetes reads only the annotation if there is
// one; here neither can hide what the other says. The options are as the user
// wrote them, not checked. The slice is the caller's.
func (s *Spec) MountOptions() []string {
	if s == nil || s.PersistentVolume == nil {
		return nil
	}
	options := slices.Clone(s.PersistentVolume.Spec.MountOptions)
	return append(options, splitOptions(s.PersistentVolume.Annotations[v1.MountOptionAnnotation])...)
}

// splitOptions splits at commas and drops blanks around options and empty ones.
func splitOptions(list string) []string {
	var options []string
	for option := range strings.SplitSeq(list, ",") {
		if option = strings.TrimSpace(option); option != "" {
			options = append(options, option)
		}
	}
	return options
}

// hasReadOnlyOption also finds an "ro" in an element that is really several,
// which will be refused later: until then it is better taken for read-only.
func (s *Spec) hasReadOnlyOption() bool {
	return slices.ContainsFunc(s.MountOptions(), func(option string) bool {
		return slices.Contains(splitOptions(option), "ro")
	})
}
