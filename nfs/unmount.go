package nfs

import (
	"context"
	"errors"
	"time"

	"github.com/volumekit/volumekit/util"
)

// patience is how long the end of a file system is waited for that is unmounted: a
// server that answers has got by then what was written, and one that does not would
// be told for ever that its client is leaving. Tests change it.
var patience = 10 * time.Second

// unmount takes down what is mounted at dir and removes the directory. Exports of the
// server that are inside of this one, which the kernel's client mounts by itself when
// somebody looks there, go with it. The end of
// the file system is waited for in vain at most once; the mounter's own steps with a
// mount in use begin where the last try has left them.
func unmount(ctx context.Context, mounts *util.PodMounts, dir string, options ...util.UnmountOption) error {
	options = append(options, util.EndLater(), util.WithThoseInside(isNFS))
	for {
		try, cancel := context.WithTimeout(ctx, patience)
		err := mounts.Unmount(try, dir, options...)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}
