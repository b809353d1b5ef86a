package podvolume

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/volumekit/volumekit/mount"
)

// Tmpfs returns the request for a tmpfs of its own, without a target, as [Dir] takes
// it. Its content is not swapped to a disk if the kernel knows that option (noswap) for
// this process: since Linux 6.4, in the initial user namespace (tmpfs(5)). Elsewhere the
// tmpfs is without it; see [mount.KnowsOption].
func Tmpfs(ctx context.Context, options ...string) *mount.Request {
	const tmpfs, noSwap = "tmpfs", "noswap"
	all := slices.Clone(options)
	if knowsNoSwap(ctx, func() bool { return mount.KnowsOption(ctx, tmpfs, noSwap) }) {
		all = append(all, noSwap)
	}
	return &mount.Request{Source: tmpfs, FSType: tmpfs, Options: all}
}

// noSwapKnown is the kernel's answer for this process, nil before the first.
var noSwapKnown atomic.Pointer[bool]

// knowsNoSwap returns the answer of ask, which cannot change while the process lives. It
// keeps the first answer, unless ctx ended before it.
func knowsNoSwap(ctx context.Context, ask func() bool) bool {
	if known := noSwapKnown.Load(); known != nil {
		return *known
	}
	known := ask()
	if ctx.Err() == nil {
		noSwapKnown.Store(&known)
	}
	return known
}
