package mount

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync/atomic"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// A Mounter is the [Interface] to the running kernel, by system call. It works
// in the mount namespace of the process. [Mounter.Close] releases what it holds.
//
// From the first question about some mounts of many on (MountRefs, MountsFrom,
// Resolve) it holds a descriptor by which the kernel tells what has changed in the
// mount table, and an index of the table in memory. Between calls it does nothing.
type Mounter struct {
	config Config
	// mounting has the target of every Mount that the kernel is still at, also
	// when its caller has given up: there is never more than one in the kernel.
	mounting keylock.Map
	// changing has the target of every operation that may still change what is
	// mounted there: no other must overtake it. It is taken after mounting.
	changing keylock.Map
	// asking has the mount of every lookup that waits for a file system.
	asking  keylock.Map
	leaving leaving // what unmounting remembers
	cache   cache   // of the mount table
	anchors anchors
	lines   atomic.Int64 // of the mount table, when it was read for a bind mount
	closed  atomic.Bool
	sweep   sweeping // of what killed processes have left
}

var _ Interface = (*Mounter)(nil)

// New returns a Mounter. It asks the system nothing.
func New(config Config) *Mounter { return &Mounter{config: config} }

// Close releases what the Mounter holds of the system. Calls that are under way
// end as they would; later ones fail with an error that wraps [ErrClosed]. What is
// mounted stays mounted. Close is idempotent and always returns nil.
func (m *Mounter) Close() error {
	m.closed.Store(true)
	m.anchors.dropAll()
	m.cache.close()
	return nil
}

// begin checks that there is something to begin.
func (m *Mounter) begin(ctx context.Context) error {
	if m.closed.Load() {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	m.sweep.begin(m.sweepStages)
	return m.sweep.wait(ctx)
}

// Mount implements [Interface].
func (m *Mounter) Mount(ctx context.Context, req Request) error {
	options, err := req.Parse(m.config.Allow)
	if err != nil {
		return err
	}
	req.Target = path.Clean(req.Target)
	return wrap("mount", req.Source, req.Target, m.mountLocked(ctx, req, options))
}

func (m *Mounter) mountLocked(ctx context.Context, req Request, o Options) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	unlock, err := m.mounting.Lock(ctx, req.Target)
	if err != nil {
		return ctxend.Error(ctx)
	}
	mounting := newLease(unlock)
	defer mounting.end()
	unlock, err = m.changing.Lock(ctx, req.Target)
	if err != nil {
		return ctxend.Error(ctx)
	}
	if ctx.Done() == nil || req.FSType == "" && m.isCalm(req.Target) {
		err := m.mount(ctx, &claim{calm: true}, mounting, req, o)
		if ctx.Done() == nil || !errors.Is(err, errNotCalm) {
			unlock()
			return err
		}
	}
	mounting.share()
	return inTime(ctx, unlock, func(c *claim) error {
		defer mounting.end()
		return m.mount(ctx, c, mounting, req, o)
	})
}

// errNotCalm is that the target has become one that can make its caller wait.
var errNotCalm = errors.New("not calm")

// Unmount implements [Interface].
func (m *Mounter) Unmount(ctx context.Context, target string) error {
	if err := checkPath("Target", target); err != nil {
		return err
	}
	target = path.Clean(target)
	err := m.begin(ctx)
	if err == nil {
		err = m.unmount(ctx, target, 0)
	}
	return wrap("unmount", "", target, err)
}

// UnmountTree implements [Interface].
func (m *Mounter) UnmountTree(ctx context.Context, target string) error {
	if err := checkPath("Target", target); err != nil {
		return err
	}
	target = path.Clean(target)
	err := m.begin(ctx)
	if err == nil {
		err = m.unmountTree(ctx, target)
	}
	return wrap("unmount tree", "", target, err)
}

// IsMountPoint implements [Interface].
func (m *Mounter) IsMountPoint(ctx context.Context, p string) (mounted bool, err error) {
	err = m.query(ctx, "is mount point", p, func(p string) (err error) {
		mounted, err = m.isMountPoint(ctx, p)
		return err
	})
	return mounted, err
}

// MountRefs implements [Interface].
func (m *Mounter) MountRefs(ctx context.Context, p string) (refs []string, err error) {
	err = m.query(ctx, "mount refs", p, func(p string) (err error) {
		refs, err = m.mountRefs(ctx, p)
		return err
	})
	return refs, err
}

// Resolve implements [Interface].
func (m *Mounter) Resolve(ctx context.Context, p string) (place Place, err error) {
	err = m.query(ctx, "resolve", p, func(p string) (err error) {
		place, err = m.resolve(ctx, p)
		return err
	})
	return place, err
}

// FollowLinks returns p, which must be absolute, without symbolic links: neither on
// its way nor at its end. From the component on that does not exist it stays as it is,
// which is no error. It changes nothing. Like the methods of [Interface] it returns
// soon after ctx ends, and what a file system has to be asked for is asked by one call
// at a time for each mount.
//
// A link through the parent of another link, which only the second can resolve, is an
// error that wraps errors.ErrUnsupported.
func (m *Mounter) FollowLinks(ctx context.Context, p string) (resolved string, err error) {
	err = m.query(ctx, "follow links", p, func(p string) (err error) {
		resolved, err = m.followLinks(ctx, p)
		return err
	})
	return resolved, err
}

// query asks about a path.
func (m *Mounter) query(ctx context.Context, op, p string, ask func(p string) error) error {
	if err := checkAbsolute("Path", p); err != nil {
		return err
	}
	p = path.Clean(p)
	err := m.begin(ctx)
	if err == nil {
		err = ask(p)
	}
	return wrap(op, "", p, err)
}

// MountsFrom implements [Interface].
func (m *Mounter) MountsFrom(ctx context.Context, source string) ([]Info, error) {
	if err := checkSource(source); err != nil {
		return nil, err
	}
	var mounts []Info
	err := m.begin(ctx)
	if err == nil {
		mounts, err = m.mountsFrom(ctx, source)
	}
	return mounts, wrap("mounts from", source, "", err)
}

// checkSource accepts what a mount can have been made from.
func checkSource(source string) error {
	switch {
	case source == "":
		return inputError("Source", source, "a source is needed")
	case strings.ContainsRune(source, 0):
		return inputError("Source", source, "a source holds no NUL")
	}
	return nil
}

// List implements [Interface].
func (m *Mounter) List(ctx context.Context) ([]Info, error) {
	var table Table
	err := m.begin(ctx)
	if err == nil {
		table, err = readTableIn(ctx)
	}
	return table, wrap("list", "", "", err)
}

func wrap(op, source, target string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Source: source, Target: target, Err: err}
}
