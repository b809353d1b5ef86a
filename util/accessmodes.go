package util

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// AccessModesContainedInAll reports whether indexed contains all of requested: whether a
// volume with the modes indexed can serve a claim for requested. It is true for a claim
// without modes.
func AccessModesContainedInAll(indexed, requested []v1.PersistentVolumeAccessMode) bool {
	for _, mode := range requested {
		if !slices.Contains(indexed, mode) {
			return false
		}
	}
	return true
}
