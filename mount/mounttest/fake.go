package mounttest

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/volumekit/volumekit/internal/tablepath"
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

var operations = []string{
	OpMount, OpUnmount, OpUnmountTree, OpIsolate, OpIsMountPoint, OpMountRefs, OpMountsFrom, OpResolve, OpList,
}

// A Fake is a kernel in memory that keeps the promises of [mount.Interface]. [NewFake]
// returns one. It is safe for concurrent use; a call that is delayed by a [Fault] holds up
// calls of Mount and Unmount for the same target only.
//
// Mount and Unmount refuse a path with a symbolic link on the way with ELOOP.
// Queries follow links, except one that the path itself is. On systems other
// than Linux the links that lead to os.TempDir() are followed (on a Mac that
// directory is always behind one).
//
// The Fake accepts any file system type with any options. It refuses the kinds of mount of mount(8)
// that are no type: "bind", "rbind", "none" and "auto".
//
// A bind mount whose source is removed or replaced (by another directory or file of its
// name) shows the removed one, and mount.Info.Deleted is true. The Fake notices that with
// the next call about the mount, and remembers it.
//
// The zero Fake is one of [NewFake] with the zero mount.Config.
type Fake struct {
	allow   mount.Allow
	policy  mount.UnmountPolicy
	trusted string // symbolic links that lead to this path are followed

	targets keylock.Map // one change at a time for each; locked before mu

	mu      sync.Mutex // guards the rest; never held while a call is delayed
	kernel  kernel
	faults  []*Fault
	op      string          // the operation in progress
	waiters []chan struct{} // closed when the faults are cleared
	log     []Action

	watchers      map[chan struct{}]bool // of length 1, for Watch
	tableWatchers map[*tableWatcher]bool
}

var _ mount.Interface = (*Fake)(nil)

// NewFake returns a Fake in which only "/" is mounted: the real file system. Of the
// configuration it uses Allow, and Unmount.Last where a [Fault] hangs.
func NewFake(config mount.Config) *Fake {
	f := &Fake{allow: config.Allow, policy: config.Unmount}
	f.begin()
	return f
}

// begin mounts "/".
func (f *Fake) begin() {
	f.trusted = trustedLinks()
	f.kernel = newKernel()
	f.watchers = map[chan struct{}]bool{}
	f.tableWatchers = map[*tableWatcher]bool{}
}

// lock locks the Fake. The zero Fake begins then.
func (f *Fake) lock() {
	f.mu.Lock()
	if f.kernel.mounts == nil {
		f.begin()
	}
}

// Mount implements [mount.Interface]. The source of a device or pseudo file
// system need not exist. Two mounts of one device ("/dev/...") show the same
// file system; every other file system is new with each mount.
func (f *Fake) Mount(ctx context.Context, req mount.Request) error {
	if req.FSType == "" {
		req.Source = tablepath.Of(req.Source)
	}
	req.Target = tablepath.Of(req.Target)
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
	target = tablepath.Of(target)
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
	err := f.queryPath(ctx, OpIsMountPoint, p, func(p string) error {
		at, err := f.find(p)
		is = err == nil && at.isMountPoint()
		return err
	})
	return is && err == nil, err
}

// MountRefs implements [mount.Interface].
func (f *Fake) MountRefs(ctx context.Context, p string) ([]string, error) {
	var refs []string
	err := f.queryPath(ctx, OpMountRefs, p, func(p string) error {
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
		refs[i] = tablepath.Native(ref)
	}
	return refs, nil
}

// List implements [mount.Interface]. The caller may change the result. On Windows, too,
// paths in the table have slashes: "/C:/dir".
func (f *Fake) List(ctx context.Context) ([]mount.Info, error) {
	var list []mount.Info
	err := f.runQuery(ctx, Action{Op: OpList}, func() error {
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
	target = tablepath.Of(target)
	action := Action{Op: OpUnmountTree, Target: target}
	if err := checkTarget(target); err != nil {
		return f.finish(action, err)
	}
	action.Target = path.Clean(target)
	if ctx.Err() != nil {
		return f.finish(action, ctxend.Error(ctx))
	}
	return f.finish(action, f.runWithFaults(ctx, action, func() error { return f.unmountTree(ctx, action.Target) }))
}

// MountsFrom implements [mount.Interface]. Paths below /dev are block devices, also those
// that do not exist.
func (f *Fake) MountsFrom(ctx context.Context, source string) ([]mount.Info, error) {
	action := Action{Op: OpMountsFrom, Source: source}
	if err := checkSource(source); err != nil {
		return nil, f.finish(action, err)
	}
	var mounts []mount.Info
	err := f.runQuery(ctx, action, func() error {
		mounts = f.kernel.mountsFrom(source)
		return nil
	})
	return mounts, err
}

// Resolve implements [mount.Interface].
func (f *Fake) Resolve(ctx context.Context, p string) (mount.Place, error) {
	var place mount.Place
	err := f.queryPath(ctx, OpResolve, p, func(p string) error {
		at, err := f.find(p)
		if err == nil {
			place = mount.Place{Mount: at.in.entry(), Path: path.Join("/", relativePath(at.in.Mountpoint, at.path))}
		}
		return err
	})
	if err != nil {
		return mount.Place{}, err
	}
	return place, nil
}

// change runs an operation that changes the mounts at a target.
func (f *Fake) change(ctx context.Context, action Action, work func() error) error {
	return f.finish(action, f.runExclusive(ctx, action, work))
}

// runExclusive runs work that changes the mounts at a target: one at a time for each target,
// and none after the end of ctx.
func (f *Fake) runExclusive(ctx context.Context, action Action, work func() error) error {
	unlock, err := f.targets.Lock(ctx, action.Target)
	if err != nil {
		return ctxend.Error(ctx)
	}
	defer unlock()
	defer f.notifyWatchers()
	return f.runWithFaults(ctx, action, func() error { return f.runAnswered(ctx, action.Op, work) })
}

// queryPath runs an operation on a path that changes nothing.
func (f *Fake) queryPath(ctx context.Context, op, p string, work func(p string) error) error {
	p = tablepath.Of(p)
	if err := checkPath(p); err != nil {
		return f.finish(Action{Op: op, Target: p}, err)
	}
	p = path.Clean(p)
	return f.runQuery(ctx, Action{Op: op, Target: p}, func() error { return work(p) })
}

// runQuery runs an operation that changes nothing.
func (f *Fake) runQuery(ctx context.Context, action Action, work func() error) error {
	if ctx.Err() != nil {
		return f.finish(action, ctxend.Error(ctx))
	}
	return f.finish(action, f.runWithFaults(ctx, action, func() error { return f.runAnswered(ctx, action.Op, work) }))
}

// withLock runs work under the lock.
func (f *Fake) withLock(work func() error) error {
	f.lock()
	defer f.mu.Unlock()
	return work()
}

// finish gives err the form that mount.Interface promises and logs the action.
func (f *Fake) finish(action Action, err error) error {
	var input *mount.InputError
	switch {
	case err == nil:
	case errors.As(err, &input):
		named := *input
		named.Op = action.Op
		err = &named
	default:
		err = &mount.Error{Op: action.Op, Source: action.Source, Target: action.Target, Err: err}
	}
	action.Err = err
	f.record(action)
	return err
}

// checkTarget validates the target of a request.
func checkTarget(target string) error {
	_, err := mount.Request{Source: "none", FSType: "none", Target: target}.Parse(mount.Allow{})
	return err
}

// checkPath validates the path of a query, which may be the root.
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

// checkSource validates the source of MountsFrom.
func checkSource(source string) error {
	switch {
	case source == "":
		return &mount.InputError{Field: "Source", Value: source, Reason: "a source is required"}
	case strings.ContainsRune(source, 0):
		return &mount.InputError{Field: "Source", Value: source, Reason: "a source must not contain NUL"}
	}
	return nil
}
