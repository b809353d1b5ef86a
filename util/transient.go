package util

import (
	"errors"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/volume"
)

// Transient returns err as a [volume.ErrTransient]: nothing has changed, and the same call
// may succeed later. It returns nil for nil, and leaves errors final that no later call avoids:
// EPERM, [mount.ErrUnknownFSType], and a change of files to a user or group that this user
// namespace does not map.
func Transient(err error) error {
	for _, final := range []error{syscall.EPERM, mount.ErrUnknownFSType, beneath.ErrUnmapped} {
		if errors.Is(err, final) {
			return err
		}
	}
	return volume.AsTransient(err)
}
