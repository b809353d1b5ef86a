package mounting

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/record"
)

// A target is a resolved target.
type target struct {
	fd      int    // the file at the path, or the root of its top mount
	made    string // the name of a new directory in fd, which is the target instead
	mounted bool
	dir     bool
	mount   kernel.MountID // the mount of fd
	// parent is the directory that holds the target, and name the name of the target in it,
	// on kernels that do not report the parent of a mount (before Linux 6.8); otherwise -1.
	parent int
	name   string
}

// noTarget has no descriptors.
var noTarget = target{fd: -1, parent: -1}

// openTarget resolves the target.
func (a *arrival) openTarget(ctx context.Context) error {
	l := a.maker.Resolver.WithoutLinks()
	a.target = noTarget
	open := a.target.open
	if !record.ReportsParents() {
		open = a.target.openInParent
	}
	if err := open(ctx, l, a.spec.Target); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	return nil
}

func (t *target) open(ctx context.Context, l lookup.Lookup, path string) (err error) {
	if t.fd, err = l.Open(ctx, path, 0); err != nil {
		return err
	}
	s, err := kernel.LocationOf(t.fd)
	t.mounted, t.dir, t.mount = s.Root, s.Dir, s.ID
	return err
}

// openInParent opens the target by its parent, whose mount shows whether the target is a mount
// point.
func (t *target) openInParent(ctx context.Context, l lookup.Lookup, path string) (err error) {
	if t.parent, t.name, err = l.OpenParent(ctx, path); err != nil {
		return err
	}
	if t.fd, err = l.OpenChild(ctx, t.parent, t.name); err != nil {
		return err
	}
	s, err := kernel.LocationOf(t.fd)
	if err != nil {
		return err
	}
	above, err := kernel.LocationOf(t.parent)
	t.mounted, t.dir, t.mount = s.ID != above.ID, s.Dir, s.ID
	return err
}

func (t *target) close() { kernel.Close(t.fd, t.parent) }

// isLocal reports whether attaching to the target waits for no server: the kernel locks the
// target's directory, which no lookup that waits for a server has locked.
func (a *arrival) isLocal() bool { return a.maker.Kinds.IsLocal(a.target.mount) }
