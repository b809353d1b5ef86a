package mount

import (
	"context"
	"path"

	"github.com/volumekit/volumekit/mount/internal/spec"
)

// An Isolator ends mount propagation, mount_namespaces(7). A [*Mounter] is one.
type Isolator interface {
	// Isolate makes the top mount at target and all mounts inside it private: later mounts
	// and unmounts in them do not propagate, in either direction. Mounts that have
	// propagated before stay. Callers isolate a shared mount before [Interface.UnmountTree],
	// which would also unmount the mounts inside its peers.
	//
	// It is idempotent. A target that is no mount point, or is a symbolic link, is no error,
	// and nothing changes; a missing target is an error that wraps fs.ErrNotExist. A mount
	// whose directory was removed on its NFS server stays as it is: the error wraps unix.ESTALE. Isolate
	// returns soon after ctx ends, like the methods of [Interface].
	Isolate(ctx context.Context, target string) error
}

var _ Isolator = (*Mounter)(nil)

// Isolate implements [Isolator].
func (m *Mounter) Isolate(ctx context.Context, target string) error {
	if err := spec.CheckPath("Target", target); err != nil {
		return publicInputError("isolate", err)
	}
	target = path.Clean(target)
	err := m.begin(ctx)
	if err == nil {
		err = m.isolate(ctx, target)
	}
	return wrap("isolate", "", target, err)
}
