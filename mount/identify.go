package mount

import "context"

// An Identifier tells mounts apart. A [*Mounter] is one.
type Identifier interface {
	// MountID returns a number of the mount that is visible at path, which no other
	// mount has until the machine starts again; 0 if path is no mount point. It asks
	// as IsMountPoint does, never the file system that is mounted at path, and returns
	// soon after ctx ends. Where the kernel has no such numbers (Linux before 6.8) the
	// error wraps errors.ErrUnsupported.
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
