package util

import "slices"

// JoinMountOptions returns the options of both lists, sorted, each once. It does not
// interpret them: the mounter refuses contradictions. The result is a new slice.
func JoinMountOptions(user, system []string) []string {
	options := slices.Concat(user, system)
	slices.Sort(options)
	return slices.Compact(options)
}
