package fsusage

import (
	"context"
	"fmt"
)

// BlockSize returns the size of a block device in bytes, BLKGETSIZE64 of ioctl(2). What
// is no block device is an error that wraps syscall.ENOTBLK. It returns when ctx ends,
// with ctx's cause; a device that does not answer is asked on by one goroutine for each
// call.
func BlockSize(ctx context.Context, device string) (int64, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	type answer struct {
		size int64
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		size, err := blockSize(device)
		answers <- answer{size, err}
	}()
	select {
	case a := <-answers:
		return a.size, a.err
	case <-ctx.Done():
		return 0, fmt.Errorf("block device %s does not answer: %w", device, context.Cause(ctx))
	}
}
