package util

import (
	"slices"

	"github.com/volumekit/volumekit/mount"
)

// Tmpfs returns the request for a tmpfs of its own, without a target, as [PodDir] takes
// it. What is in it is not swapped to a disk if the kernel knows that option (noswap) for
// this process: since Linux 6.4, in the initial user namespace (tmpfs(5)). Elsewhere the
// tmpfs is without it; see [mount.KnowsOption].
func Tmpfs(options ...string) *mount.Request {
	const tmpfs, noSwap = "tmpfs", "noswap"
	all := slices.Clone(options)
	if mount.KnowsOption(tmpfs, noSwap) {
		all = append(all, noSwap)
	}
	return &mount.Request{Source: tmpfs, FSType: tmpfs, Options: all}
}
