package mountutils

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	peer "k8s.io/mount-utils"
)

// A Peer is a [mount.Interface] that mounts with an Interface of k8s.io/mount-utils:
// its FakeMounter in a test, or a program's own mounter until it is replaced. It
// keeps the promises of mount.Interface as far as that lets it:
//
//   - A call that does not end when its context does goes on in a goroutine, one
//     for each path, and later calls for the path wait for it. A mount that it
//     makes late is unmounted again; until then it can be seen.
//   - A bind mount that is to be private joins its source's peer group first, and the
//     peer makes it private then ("rprivate"). Isolate needs a peer that makes mounts
//     private when it is told to mount "none" with that option.
//   - That a mount is in use the peer says in words: those of util-linux and busybox
//     are known ([mount.ErrBusy]), or else it is what has another mount inside.
//   - A read-only bind mount is as safe as the peer's: mount(8) makes it writable
//     first.
//   - The mount table has what the peer lists. IDs and parents are made up from the
//     order, device numbers from the devices' names; Root is "/" and Deleted false,
//     always: a part of a file system is taken for all of it.
//   - mount.Request.IDMap and SourceFile are refused with errors.ErrUnsupported.
//   - mount.Request.Helper is left to mount(8), which uses programs where there are any.
type Peer struct {
	peer  peer.Interface
	allow mount.Allow
	// changing and asking have the paths that the peer is at.
	changing, asking keylock.Map
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

// WithAllow grants what requests are refused otherwise, as mount.Config.Allow does.
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
	return finish("mount", req.Source, req.Target, f.change(ctx, req.Target, func(c *claim) error {
		return f.mount(c, req, o)
	}))
}

// Unmount implements [mount.Interface].
func (f *Peer) Unmount(ctx context.Context, target string) error {
	target, err := checkPath("Target", target)
	if err != nil {
		return err
	}
	return finish("unmount", "", target, f.change(ctx, target, func(c *claim) error {
		return f.unmount(c, target)
	}))
}

// UnmountTree implements [mount.Interface].
func (f *Peer) UnmountTree(ctx context.Context, target string) error {
	target, err := checkPath("Target", target)
	if err != nil {
		return err
	}
	return finish("unmount tree", "", target, f.change(ctx, target, func(c *claim) error {
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

// MountsFrom implements [mount.Interface]. Of a device it compares the name.
func (f *Peer) MountsFrom(ctx context.Context, source string) ([]mount.Info, error) {
	if source == "" || strings.ContainsRune(source, 0) {
		return nil, &mount.InputError{Field: "Source", Value: shorten(source), Reason: "a source is needed, without NUL"}
	}
	mounts, err := ask(ctx, f, "", func() ([]mount.Info, error) { return f.mountsFrom(source) })
	return mounts, finish("mounts from", source, "", err)
}

// List implements [mount.Interface].
func (f *Peer) List(ctx context.Context) ([]mount.Info, error) {
	list, err := ask(ctx, f, "", func() ([]mount.Info, error) { return f.table() })
	return list, finish("list", "", "", err)
}

// checkPath accepts the paths that a request may have as its target.
func checkPath(field, p string) (clean string, err error) {
	_, err = mount.Request{Source: "none", FSType: "none", Target: p}.Parse(mount.Allow{})
	var input *mount.InputError
	if errors.As(err, &input) {
		return "", &mount.InputError{Field: field, Value: input.Value, Reason: input.Reason}
	}
	return path.Clean(p), err
}

// query asks about a path.
func query[T any](ctx context.Context, f *Peer, op, p string, work func(p string) (T, error)) (answer T, err error) {
	if path.Clean(p) != "/" || strings.Contains(p, "..") { // which nothing is mounted on, but may be asked about
		if p, err = checkPath("Path", p); err != nil {
			return answer, err
		}
	}
	p = path.Clean(p)
	answer, err = ask(ctx, f, p, func() (T, error) { return work(p) })
	return answer, finish(op, "", p, err)
}

// ask has a goroutine ask the peer, one for each path, and waits for it no longer
// than ctx allows.
func ask[T any](ctx context.Context, f *Peer, p string, work func() (T, error)) (T, error) {
	var none T
	unlock, err := f.asking.Lock(ctx, p)
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

// change has a goroutine change what is mounted at the target, and waits for it no
// longer than ctx allows. The target stays locked until the goroutine has ended.
func (f *Peer) change(ctx context.Context, target string, work func(*claim) error) error {
	unlock, err := f.changing.Lock(ctx, target)
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
	switch c.giveUp() {
	case claimFinished:
		return <-done
	case claimRevoked:
		return ctxend.Error(ctx)
	}
	return fmt.Errorf("%w: %w", mount.ErrUncertain, ctxend.Error(ctx))
}

// finish gives err the form that mount.Interface promises.
func finish(op, source, target string, err error) error {
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
