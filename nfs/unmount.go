package nfs

import (
	"context"
	"errors"
	"time"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/podvolume"
)

// endLimit limits the wait for the end of an unmounted file system. A server that answers
// has received all data by then; without an answer the client would wait for ever. Tests
// change it.
var endLimit = 10 * time.Second

// unmount unmounts dir and removes the directory. Exports of the server inside this one,
// which the kernel's client mounts by itself on access, are unmounted with it. unmount
// waits for the end of the file system at most once; the mounter's escalation on a busy
// mount continues where the previous attempt stopped.
func unmount(ctx context.Context, mounts *podvolume.Mounts, dir string, options ...util.UnmountOption) error {
	options = append(options, util.EndLater(), util.WithSubmounts(isNFS))
	for {
		try, cancel := context.WithTimeout(ctx, endLimit)
		err := mounts.Unmount(try, dir, options...)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}
