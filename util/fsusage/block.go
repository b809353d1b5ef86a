package fsusage

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/internal/brief"
)

// BlockSize returns the size of a block device in bytes, BLKGETSIZE64 of ioctl(2). For
// other files the error wraps syscall.ENOTBLK. BlockSize returns when ctx ends, with ctx's
// cause. The system calls may then still wait for the device: until they return, further
// calls for the same device node wait for them, as with [Stat]. A new node at the path gets
// a call of its own.
func BlockSize(ctx context.Context, device string) (_ int64, err error) {
	defer brief.Shorten(&err)
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	size, err := sizes.wait(ctx, place{device, mountAt(device), nodeAt(device)}, blockSize)
	if errors.Is(err, errNoAnswer) {
		err = fmt.Errorf("block device %s does not answer: %w", device, context.Cause(ctx))
	}
	return size, err
}

var sizes queries[int64]
