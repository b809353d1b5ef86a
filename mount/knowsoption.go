package mount

import (
	"context"

	"github.com/volumekit/volumekit/mount/internal/building"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// KnowsOption reports whether the kernel accepts an option without a value, such as
// "noswap", for a file system type, such as "tmpfs", from this process in its present state.
// It calls fsopen(2) and fsconfig(2), and creates no file system.
//
// It also returns false if the answer cannot be found: without the calls (before Linux 5.2,
// or behind a system call filter), for an unknown type, for a process that may not mount,
// and on other systems than Linux. It does not report the reason of a refusal: tmpfs has
// "noswap" since Linux 6.4, and only in the initial user namespace. File systems that read
// their options at the time of the mount accept every option here. Flags of the mount
// ("nosuid") are no options of a file system.
//
// Each call queries the kernel. The kernel may have to load the file system's module from a
// disk that does not answer: the result is false if ctx ends first. KnowsOption is safe for
// concurrent use; calls for one type wait for each other.
func KnowsOption(ctx context.Context, fsType, option string) bool {
	accepts := func() (bool, error) { return building.AcceptsOption(fsType, option), nil }
	knows, _, err := keylock.Await(ctx, optionQueries.Key(fsType), ctxend.Kernel, accepts, nil)
	return knows && err == nil
}

// optionQueries is locked by type for each query of KnowsOption.
var optionQueries keylock.Map
