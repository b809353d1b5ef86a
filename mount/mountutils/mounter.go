package mountutils

import (
	"context"
	"time"

	"github.com/volumekit/volumekit/mount"
	peer "k8s.io/mount-utils"
)

// DefaultTimeout is how long a call of a [Mounter] takes at most, unless
// [WithTimeout] says otherwise: longer than a server that is slow, shorter than
// what callers of mount-utils, the kubelet among them, allow for a whole volume.
const DefaultTimeout = 2 * time.Minute

// A Mounter is the Interface of k8s.io/mount-utils to a [mount.Interface]. It is
// safe for concurrent use.
type Mounter struct {
	mounter mount.Interface
	ctx     context.Context
	timeout time.Duration
	stack   bool
	links   links
}

var _ peer.MounterForceUnmounter = (*Mounter)(nil)

// New returns a Mounter that mounts with m. Which options it accepts is for m to
// say: mount.Config.Allow. M stays the caller's to close.
func New(m mount.Interface, options ...Option) *Mounter {
	mounter := &Mounter{mounter: m, ctx: context.Background(), timeout: DefaultTimeout}
	for _, option := range options {
		option(mounter)
	}
	return mounter
}

// An Option changes what [New] returns.
type Option func(*Mounter)

// WithContext ends calls when ctx does, and refuses later ones. The interface of
// mount-utils has no contexts of its own.
func WithContext(ctx context.Context) Option {
	return func(m *Mounter) { m.ctx = ctx }
}

// WithTimeout lets a call take as long as timeout, and no longer. Zero or less
// lets it wait for as long as the kernel does.
func WithTimeout(timeout time.Duration) Option {
	return func(m *Mounter) { m.timeout = timeout }
}

// WithStacking mounts on top of what is mounted at a target already, as mount(8)
// does, for callers that rely on it. Without it a repeated call changes nothing:
// most callers look whether there is a mount first, and what they want of a retry
// is one mount.
func WithStacking() Option {
	return func(m *Mounter) { m.stack = true }
}

// call returns the context of one call.
func (m *Mounter) call(timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(m.ctx)
	}
	return context.WithTimeout(m.ctx, timeout)
}
