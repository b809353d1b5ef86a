package util

import (
	"slices"

	"github.com/volumekit/volumekit/volume"
)

// JoinMountOptions returns the options of both lists, sorted, each once. It does
// not look at what they mean: contradictions are refused where they are mounted.
// The slice is the caller's.
func JoinMountOptions(user, system []string) []string {
	options := slices.Concat(user, system)
	slices.Sort(options)
	return slices.Compact(options)
}

// MountOptionFromSpec returns the mount options of the persistent volume, those
// of the old annotation included, joined with the given ones as
// [JoinMountOptions] does. A volume that is written in a pod has none of its own.
// Options are not checked here. The slice is the caller's.
//
// Kubernetes leaves spec.mountOptions out if there is an annotation; here both
// count, so that an "ro" in one is not lost.
func MountOptionFromSpec(spec *volume.Spec, options ...string) []string {
	return JoinMountOptions(spec.MountOptions(), options)
}
