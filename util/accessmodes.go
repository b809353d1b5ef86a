package util

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// accessModeNames has the short names, in the order in which they are printed.
var accessModeNames = []struct {
	mode v1.PersistentVolumeAccessMode
	name string
}{
	{v1.ReadWriteOnce, "RWO"},
	{v1.ReadOnlyMany, "ROX"},
	{v1.ReadWriteMany, "RWX"},
	{v1.ReadWriteOncePod, "RWOP"},
}

// AccessModesContains reports whether mode is one of modes.
func AccessModesContains(modes []v1.PersistentVolumeAccessMode, mode v1.PersistentVolumeAccessMode) bool {
	return slices.Contains(modes, mode)
}

// AccessModesContainedInAll reports whether all of requested are among indexed:
// whether a volume with the modes indexed can serve a claim for requested. A
// claim for none can be served.
func AccessModesContainedInAll(indexed, requested []v1.PersistentVolumeAccessMode) bool {
	for _, mode := range requested {
		if !slices.Contains(indexed, mode) {
			return false
		}
	}
	return true
}

// GetAccessModesAsString returns the modes as kubectl prints them, "RWO,ROX",
// each once and in this order: RWO, ROX, RWX, RWOP. Unknown modes are left out.
func GetAccessModesAsString(modes []v1.PersistentVolumeAccessMode) string {
	var names []string
	for _, known := range accessModeNames {
		if slices.Contains(modes, known.mode) {
			names = append(names, known.name)
		}
	}
	return strings.Join(names, ",")
}
