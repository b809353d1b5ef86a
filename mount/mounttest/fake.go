package mounttest

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// The operations of a [Fake], named as in mount.Error.Op.
const (
	OpMount        = "mount"
	OpUnmount      = "unmount"
	OpUnmountTree  = "unmount tree"
	OpIsolate      = "isolate"
	OpIsMountPoint = "is mount point"
	OpMountRefs    = "mount refs"
	OpMountsFrom   = "mounts from"
	OpResolve      = "resolve"
	OpList         = "list"
)

// A Fake is a kernel in memory that keeps the promises of [mount.Interface].
// Make one with [NewFake]. It is safe for concurrent use; a call that is delayed
// by a [Fault] holds up calls of Mount and Unmount for the same target only.
//
// Mount and Unmount refuse a path with a symbolic link on the way with ELOOP.
// Queries follow links, except one that the path itself is. On systems other
// than Linux the links that lead to os.TempDir() are followed (on a Mac that
// directory is always behind one).
//
// What is for the kernel to know is not checked: a file system may be of any
// type and have any options.
//
// A bind mount whose source is removed or replaced (by another directory or
// file of its name) shows what is gone, as mount.Info.Deleted says. The Fake
// finds out when it is next asked about the mount, and sticks to it.
type Fake struct {
	allow   mount.Allow
	policy  mount.UnmountPolicy
	trusted string // symbolic links that lead to this path are followed

	targets keylock.Map // one change at a time for each; taken before mu

	mu      sync.Mutex // guards the rest; never held while a call is delayed
	kernel  kernel
	faults  []*Fault
	op      string          // that is at work
	waiters []chan struct{} // closed when the faults are cleared
	log     []Action

	watchers map[chan struct{}]bool // of length 1, for Watch
}

var _ mount.Interface = (*Fake)(nil)

// NewFake returns a Fake in which only "/" is mounted: the real file system. Of
// the configuration Allow matters to it, and Unmount.Last where a [Fault] hangs.
func NewFake(config mount.Config) *Fake {
	return &Fake{
		allow:   config.Allow,
		policy:  config.Unmount,
		trusted: trustedLinks(),
		kernel:  newKernel(),

		watchers: map[chan struct{}]bool{},
	}
}

// Mount implements [mount.Interface]. The source of a device or pseudo file
// system need not exist. Two mounts of one device ("/dev/...") show the same
// file system; every other file system is new with each mount.
func (f *Fake) Mount(ctx context.Context, req mount.Request) error {
	if req.FSType == "" {
		req.Source = slashed(req.Source)
	}
	req.Target = slashed(req.Target)
	options, err := req.Parse(f.allow)
	if err != nil {
		return f.finish(mountAction(req, options), err)
	}
	req.Target = path.Clean(req.Target)
	action := mountAction(req, options)
	return f.change(ctx, action, func() error { return f.mount(req, options) })
}

// Unmount implements [mount.Interface]. A mount is in use (EBUSY) as long as
// others are mounted inside it, and by a [Fault] that hangs.
func (f *Fake) Unmount(ctx context.Context, target string) error {
	target = slashed(target)
	if err := checkTarget(target); err != nil {
		return f.finish(Action{Op: OpUnmount, Target: target}, err)
	}
	target = path.Clean(target)
	action := Action{Op: OpUnmount, Target: target}
	return f.change(ctx, action, func() error { return f.unmount(target) })
}

// IsMountPoint implements [mount.Interface].
func (f *Fake) IsMountPoint(ctx context.Context, p string) (bool, error) {
	var is bool
	err := f.query(ctx, OpIsMountPoint, p, func(p string) error {
		at, err := f.find(p)
		is = err == nil && at.isMountPoint()
		return err
	})
	return is && err == nil, err
}

// MountRefs implements [mount.Interface].
func (f *Fake) MountRefs(ctx context.Context, p string) ([]string, error) {
	var refs []string
	err := f.query(ctx, OpMountRefs, p, func(p string) error {
		at, err := f.find(p)
		if err == nil {
			refs = f.kernel.table().Refs(at.path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, ref := range refs {
		refs[i] = native(ref)
	}
	return refs, nil
}

// List implements [mount.Interface]. The caller may change what it returns. On
// Windows, too, paths in the table have slashes: "/C:/dir".
func (f *Fake) List(ctx context.Context) ([]mount.Info, error) {
	var list []mount.Info
	err := f.ask(ctx, Action{Op: OpList}, func() error {
		list = f.kernel.table()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// UnmountTree implements [mount.Interface]. Each mount of the tree is unmounted
// as by Unmount: faults for that operation and its mount point hit it. The log has
// one action for the whole.
func (f *Fake) UnmountTree(ctx context.Context, target string) error {
	target = slashed(target)
	action := Action{Op: OpUnmountTree, Target: target}
	if err := checkTarget(target); err != nil {
		return f.finish(action, err)
	}
	action.Target = path.Clean(target)
	if ctx.Err() != nil {
		return f.finish(action, ctxend.Error(ctx))
	}
	return f.finish(action, f.faulty(ctx, action, func() error { return f.unmountTree(ctx, action.Target) }))
}

// MountsFrom implements [mount.Interface]. Block devices are what is below /dev;
// they need not exist.
func (f *Fake) MountsFrom(ctx context.Context, source string) ([]mount.Info, error) {
	action := Action{Op: OpMountsFrom, Source: source}
	if err := checkSource(source); err != nil {
		return nil, f.finish(action, err)
	}
	var mounts []mount.Info
	err := f.ask(ctx, action, func() error {
		mounts = f.kernel.mountsFrom(source)
		return nil
	})
	return mounts, err
}

// Resolve implements [mount.Interface].
func (f *Fake) Resolve(ctx context.Context, p string) (mount.Place, error) {
	var place mount.Place
	err := f.query(ctx, OpResolve, p, func(p string) error {
		at, err := f.find(p)
		if err == nil {
			place = mount.Place{Mount: at.in.line(), Path: path.Join("/", rest(at.in.Mountpoint, at.path))}
		}
		return err
	})
	if err != nil {
		return mount.Place{}, err
	}
	return place, nil
}

// change carries out an operation that changes what is mounted at a target.
func (f *Fake) change(ctx context.Context, action Action, work func() error) error {
	return f.finish(action, f.exclusively(ctx, action, work))
}

// exclusively does work that changes what is mounted at a target: one at a time
// for each, and none for a context that has ended.
func (f *Fake) exclusively(ctx context.Context, action Action, work func() error) error {
	unlock, err := f.targets.Lock(ctx, action.Target)
	if err != nil {
		return ctxend.Error(ctx)
	}
	defer unlock()
	defer f.tell()
	return f.faulty(ctx, action, func() error { return f.answered(ctx, action.Op, work) })
}

// query carries out an operation on a path that changes nothing.
func (f *Fake) query(ctx context.Context, op, p string, work func(p string) error) error {
	p = slashed(p)
	if err := checkPath(p); err != nil {
		return f.finish(Action{Op: op, Target: p}, err)
	}
	p = path.Clean(p)
	return f.ask(ctx, Action{Op: op, Target: p}, func() error { return work(p) })
}

// ask carries out an operation that changes nothing.
func (f *Fake) ask(ctx context.Context, action Action, work func() error) error {
	if ctx.Err() != nil {
		return f.finish(action, ctxend.Error(ctx))
	}
	return f.finish(action, f.faulty(ctx, action, func() error { return f.answered(ctx, action.Op, work) }))
}

// locked does work alone.
func (f *Fake) locked(work func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return work()
}

// finish gives err the form that mount.Interface promises and logs the action.
func (f *Fake) finish(action Action, err error) error {
	var input *mount.InputError
	if err != nil && !errors.As(err, &input) {
		err = &mount.Error{Op: action.Op, Source: action.Source, Target: action.Target, Err: err}
	}
	action.Err = err
	f.record(action)
	return err
}

// checkTarget accepts the paths that a request may have as its target.
func checkTarget(target string) error {
	_, err := mount.Request{Source: "none", FSType: "none", Target: target}.Parse(mount.Allow{})
	return err
}

// checkPath accepts the paths that a query may be about: the root as well.
func checkPath(p string) error {
	if path.Clean(p) == "/" && !strings.Contains(p, "..") {
		return nil
	}
	err := checkTarget(p)
	var input *mount.InputError
	if errors.As(err, &input) {
		return &mount.InputError{Field: "Path", Value: input.Value, Reason: input.Reason}
	}
	return err
}

// checkSource accepts what a mount can have been made from.
func checkSource(source string) error {
	switch {
	case source == "":
		return &mount.InputError{Field: "Source", Value: source, Reason: "a source is needed"}
	case strings.ContainsRune(source, 0):
		return &mount.InputError{Field: "Source", Value: source, Reason: "a source holds no NUL"}
	}
	return nil
}
