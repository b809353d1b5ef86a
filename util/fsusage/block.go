package fsusage

import (
	"context"
	"errors"
	"fmt"
)

// BlockSize returns the size of a block device in bytes, BLKGETSIZE64 of ioctl(2). What
// is no block device is an error that wraps syscall.ENOTBLK. It returns when ctx ends,
// with ctx's cause. The system calls may then still wait for the device: as long as they
// do, further calls for the same node wait with them, as with [Stat]; but not if another
// node is at the path by then.
func BlockSize(ctx context.Context, device string) (int64, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	size, err := sizes.ask(ctx, place{device, mountAt(device), nodeAt(device)}, blockSize)
	if errors.Is(err, errNoAnswer) {
		err = fmt.Errorf("block device %s does not answer: %w", device, context.Cause(ctx))
	}
	return size, err
}

var sizes questions[int64]
