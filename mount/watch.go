package mount

import "context"

// A Watcher tells when the mount table has changed. A [*Mounter] is one.
type Watcher interface {
	// Watch calls changed, once at its beginning, and soon after each time something
	// has been mounted, unmounted, moved or remounted in the caller's mount namespace,
	// by whomever; several changes may be one call. It calls from one goroutine, and
	// does nothing in between. It returns ctx's cause when ctx ends, and an error that
	// wraps errors.ErrUnsupported where nothing tells of changes.
	Watch(ctx context.Context, changed func()) error
}

var _ Watcher = (*Mounter)(nil)

// Watch implements [Watcher].
func (m *Mounter) Watch(ctx context.Context, changed func()) error {
	return wrap("watch", "", "", m.watch(ctx, changed))
}
