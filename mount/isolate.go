package mount

import (
	"context"
	"path"
)

// An Isolator ends mount propagation, mount_namespaces(7). A [*Mounter] is one.
type Isolator interface {
	// Isolate makes the top mount at target and all mounts in it private: what is
	// mounted or unmounted in them from then on changes nothing elsewhere, nor the
	// other way round. What has spread by then stays. So it comes before
	// [Interface.UnmountTree] of a mount that others share: that would unmount theirs.
	//
	// It is idempotent. A target that is no mount point, or is a symbolic link, is no
	// error and nothing is changed; a missing one is an error that wraps fs.ErrNotExist.
	// It returns soon after ctx ends, as the methods of [Interface] do.
	Isolate(ctx context.Context, target string) error
}

var _ Isolator = (*Mounter)(nil)

// Isolate implements [Isolator].
func (m *Mounter) Isolate(ctx context.Context, target string) error {
	if err := checkPath("Target", target); err != nil {
		return err
	}
	target = path.Clean(target)
	err := m.begin(ctx)
	if err == nil {
		err = m.isolate(ctx, target)
	}
	return wrap("isolate", "", target, err)
}
