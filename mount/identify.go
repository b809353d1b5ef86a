package mount

import "context"

// An Identifier tells mounts apart. A [*Mounter] is one.
type Identifier interface {
	// MountID returns the unique mount ID of the top mount at path, which no other mount has
	// until the next boot; 0 if path is no mount point. Like IsMountPoint it does not query
	// the mounted file system, and returns soon after ctx ends. If the kernel has no unique
	// mount IDs (before Linux 6.8) the error wraps errors.ErrUnsupported.
	MountID(ctx context.Context, path string) (uint64, error)
}

var _ Identifier = (*Mounter)(nil)

// MountID implements [Identifier].
func (m *Mounter) MountID(ctx context.Context, p string) (id uint64, err error) {
	err = m.query(ctx, "mount id", p, func(p string) (err error) {
		id, err = m.mountID(ctx, p)
		return err
	})
	return id, err
}
