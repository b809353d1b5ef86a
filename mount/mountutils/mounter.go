package mountutils

import (
	"cmp"
	"context"
	"time"

	"github.com/volumekit/volumekit/mount"
	peer "k8s.io/mount-utils"
)

// DefaultTimeout limits a call of a [Mounter], unless [WithTimeout] sets another limit: longer
// than a slow server, shorter than the time that callers of mount-utils, the kubelet among
// them, allow for a whole volume.
const DefaultTimeout = 2 * time.Minute

// A Mounter is the Interface of k8s.io/mount-utils to a [mount.Interface]. It is
// safe for concurrent use. The zero Mounter refuses every call.
type Mounter struct {
	mounter            mount.Interface
	ctx                context.Context
	timeout            time.Duration
	stack              bool
	inheritPropagation bool
	noDeviceFiles      bool
	links              links
}

var _ peer.MounterForceUnmounter = (*Mounter)(nil)

// New returns a [Mounter] that mounts with m, as an interface: programs assert that the
// result of mount-utils' New is a MounterForceUnmounter. Mount.Config.Allow of m decides
// which options are permitted. The caller closes m.
func New(m mount.Interface, options ...Option) peer.MounterForceUnmounter {
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

// WithTimeout limits a call. Zero or less: no limit.
func WithTimeout(timeout time.Duration) Option {
	return func(m *Mounter) { m.timeout = timeout }
}

// WithStacking mounts on top of an existing mount at a target, as mount(8) does, for callers
// that rely on it. Without it a repeated call changes nothing: most callers check for a mount
// first, and expect one mount after a retry.
func WithStacking() Option {
	return func(m *Mounter) { m.stack = true }
}

// WithPropagation makes mounts propagate as those of mount(8) do. A mount on a shared mount
// is shared: later mounts in it appear in the peers of that mount, too, such as a driver
// container's mounts on the node. A bind mount joins the peer group of a shared source
// mount, and becomes a slave if its source's mount is one. Without it mounts are private,
// of whatever type, unless an option of the mount says otherwise ("shared", "slave").
func WithPropagation() Option {
	return func(m *Mounter) { m.inheritPropagation = true }
}

// WithoutDeviceFiles refuses bind mounts of device files, unless mount.Config.Allow of the mounter
// permits them: for a program that binds paths which a pod can write, where a container may make a
// device file. Without it such a mount works, as with mount(8): it is a raw block volume.
func WithoutDeviceFiles() Option {
	return func(m *Mounter) { m.noDeviceFiles = true }
}

// callContext returns the context of one call.
func (m *Mounter) callContext(timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(m.context())
	}
	return context.WithTimeout(m.context(), timeout)
}

// kernel returns the mounter; that of the zero Mounter refuses every call.
func (m *Mounter) kernel() mount.Interface {
	if m.mounter == nil {
		return new(mount.Mounter)
	}
	return m.mounter
}

// context is not nil.
func (m *Mounter) context() context.Context { return cmp.Or(m.ctx, context.Background()) }
