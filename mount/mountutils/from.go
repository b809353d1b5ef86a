package mountutils

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	peer "k8s.io/mount-utils"
)

// A Peer is a [mount.Interface] over an Interface of k8s.io/mount-utils: its FakeMounter in a
// test, or a program's own mounter until it is replaced. It keeps the promises of
// mount.Interface with these limits:
//
//   - A call that does not end with its context continues in a goroutine, one for each
//     path, and later calls for the path wait for it. A mount that it completes late is
//     unmounted again; until then it is visible.
//   - A private bind mount joins its source's peer group first, and is then made private
//     ("rprivate"). Isolate needs a peer that makes mounts private on request to mount
//     "none" with that option.
//   - The peer reports a busy mount as text: the messages of util-linux and busybox are
//     recognised ([mount.ErrBusy]); otherwise a mount with another mount inside is busy.
//   - A read-only bind mount is as safe as the peer's: mount(8) makes it writable first.
//   - The mount table is the peer's list. IDs and parents are derived from the order,
//     device numbers from the devices' names; Root is "/" and Deleted false, always: a part
//     of a file system counts as all of it.
//   - mount.Request.IDMap and SourceFile are refused with errors.ErrUnsupported.
//   - mount.Request.Helper is left to mount(8), which uses the programs that are installed.
type Peer struct {
	peer  peer.Interface
	allow mount.Allow
	// changes and queries lock the paths of calls in flight.
	changes, queries keylock.Map
}

var (
	_ mount.Interface = (*Peer)(nil)
	_ mount.Isolator  = (*Peer)(nil)
)

// From returns a Peer that mounts with p.
func From(p peer.Interface, options ...PeerOption) *Peer {
	f := &Peer{peer: p}
	for _, option := range options {
		option(f)
	}
	return f
}

// A PeerOption changes what [From] returns.
type PeerOption func(*Peer)

// WithAllow permits options that requests may not have otherwise, as mount.Config.Allow does.
func WithAllow(allow mount.Allow) PeerOption {
	return func(f *Peer) { f.allow = allow }
}

// Mount implements [mount.Interface].
func (f *Peer) Mount(ctx context.Context, req mount.Request) error {
	o, err := req.Parse(f.allow)
	if err != nil {
		return err
	}
	req.Target = path.Clean(req.Target)
	return publicError("mount", req.Source, req.Target, f.change(ctx, req.Target, func(c *claim) error {
		return f.mount(c, req, o)
	}))
}

// Unmount implements [mount.Interface].
func (f *Peer) Unmount(ctx context.Context, target string) error {
	target, err := checkPath("Target", target)
	if err != nil {
		return err
	}
	return publicError("unmount", "", target, f.change(ctx, target, func(c *claim) error {
		return f.unmount(c, target)
	}))
}

// UnmountTree implements [mount.Interface].
func (f *Peer) UnmountTree(ctx context.Context, target string) error {
	target, err := checkPath("Target", target)
	if err != nil {
		return err
	}
	return publicError("unmount tree", "", target, f.change(ctx, target, func(c *claim) error {
		return f.unmountTree(c, target)
	}))
}

// IsMountPoint implements [mount.Interface].
func (f *Peer) IsMountPoint(ctx context.Context, p string) (bool, error) {
	return query(ctx, f, "is mount point", p, f.isMountPoint)
}

// MountRefs implements [mount.Interface].
func (f *Peer) MountRefs(ctx context.Context, p string) ([]string, error) {
	return query(ctx, f, "mount refs", p, f.mountRefs)
}

// Resolve implements [mount.Interface].
func (f *Peer) Resolve(ctx context.Context, p string) (mount.Place, error) {
	return query(ctx, f, "resolve", p, f.resolve)
}

// MountsFrom implements [mount.Interface]. It compares devices by name.
func (f *Peer) MountsFrom(ctx context.Context, source string) ([]mount.Info, error) {
	if source == "" || strings.ContainsRune(source, 0) {
		return nil, &mount.InputError{Field: "Source", Value: input.Shorten(source), Reason: "a source is required, without NUL"}
	}
	mounts, err := runQuery(ctx, f, "", func() ([]mount.Info, error) { return f.mountsFrom(source) })
	return mounts, publicError("mounts from", source, "", err)
}

// List implements [mount.Interface].
func (f *Peer) List(ctx context.Context) ([]mount.Info, error) {
	list, err := runQuery(ctx, f, "", func() ([]mount.Info, error) { return f.table() })
	return list, publicError("list", "", "", err)
}

// checkPath validates the target of a request.
func checkPath(field, p string) (clean string, err error) {
	_, err = mount.Request{Source: "none", FSType: "none", Target: p}.Parse(mount.Allow{})
	var input *mount.InputError
	if errors.As(err, &input) {
		return "", &mount.InputError{Field: field, Value: input.Value, Reason: input.Reason}
	}
	return path.Clean(p), err
}

// query runs a query about a path.
func query[T any](ctx context.Context, f *Peer, op, p string, work func(p string) (T, error)) (answer T, err error) {
	if path.Clean(p) != "/" || strings.Contains(p, "..") { // queries about the root are permitted
		if p, err = checkPath("Path", p); err != nil {
			return answer, err
		}
	}
	p = path.Clean(p)
	answer, err = runQuery(ctx, f, p, func() (T, error) { return work(p) })
	return answer, publicError(op, "", p, err)
}

// runQuery runs work in a goroutine, one at a time for each path, and waits for it until ctx
// ends.
func runQuery[T any](ctx context.Context, f *Peer, p string, work func() (T, error)) (T, error) {
	var none T
	unlock, err := f.queries.Lock(ctx, p)
	if err != nil {
		return none, ctxend.Error(ctx)
	}
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := work()
		unlock()
		done <- answer{value, err}
	}()
	if a, ok := ctxend.Receive(ctx, done, 0); ok {
		return a.value, a.err
	}
	return none, ctxend.Error(ctx)
}

// change runs work that changes the mounts at the target in a goroutine, and waits for it
// until ctx ends. The target stays locked until the goroutine has ended.
func (f *Peer) change(ctx context.Context, target string, work func(*claim) error) error {
	unlock, err := f.changes.Lock(ctx, target)
	if err != nil {
		return ctxend.Error(ctx)
	}
	c := new(claim)
	done := make(chan error, 1)
	go func() {
		err := work(c)
		unlock()
		done <- err
	}()
	if err, ok := ctxend.Receive(ctx, done, 0); ok {
		return err
	}
	switch c.abandon() {
	case claimFinished:
		return <-done
	case claimRevoked:
		return ctxend.Error(ctx)
	}
	return mount.AsUncertain(ctxend.Error(ctx))
}

// publicError converts err to the type that mount.Interface promises.
func publicError(op, source, target string, err error) error {
	var own *mount.Error
	var input *mount.InputError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &input):
		return input
	case errors.As(err, &own) && own.Op == op && own.Source == source && own.Target == target:
		return own
	}
	return &mount.Error{Op: op, Source: source, Target: target, Err: err}
}
