package mount

import (
	"context"
	"path"
	"sync/atomic"

	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/mount/internal/staging"
	"github.com/volumekit/volumekit/mount/internal/table"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// A Mounter is the [Interface] to the running kernel, by system call. It works in the mount
// namespace of the process. [Mounter.Close] releases its descriptors and memory. The zero Mounter refuses
// every call with an [*InputError].
//
// At its first query about some mounts of many (MountRefs, MountsFrom, Resolve), and at the
// first bind mount or unmount, it opens a descriptor by which the kernel reports changes of
// the mount table, and builds an index of the table in memory. No goroutine runs between
// calls.
type Mounter struct {
	config Config
	// changing has the target of each operation that may still change its mounts: another
	// operation must not overtake it.
	changing keylock.Map
	resolver lookup.Resolver
	cache    table.Cache
	made     bool // by New
	closed   atomic.Bool
	sweep    staging.Sweep // of the staging areas of killed processes
	parts
}

var _ Interface = (*Mounter)(nil)

// New returns a Mounter. It makes no system call.
func New(config Config) *Mounter {
	m := &Mounter{config: config, made: true}
	m.connect()
	return m
}

// Close releases the descriptors of the Mounter. Calls in progress end as they would without
// Close; later calls fail with an error that wraps [ErrClosed]. No mount changes. Close is
// idempotent, waits for no file system, and always returns nil.
func (m *Mounter) Close() error {
	m.closed.Store(true)
	m.parts.close()
	m.cache.Close()
	return nil
}

// errNotMade refuses the zero Mounter, which has no parts.
var errNotMade = inputError("Mounter", "", "must be made by New")

// begin returns an error if the Mounter is the zero value or closed, or ctx has ended. The first call removes
// the staging areas of killed processes.
func (m *Mounter) begin(ctx context.Context) error {
	if !m.made {
		return errNotMade
	}
	if m.closed.Load() {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	return m.sweep.Do(ctx, m.sweepStages)
}

// Mount implements [Interface].
func (m *Mounter) Mount(ctx context.Context, req Request) error {
	s := req.spec()
	if err := s.Check(options.Allow(m.config.Allow)); err != nil {
		return publicInputError("mount", err)
	}
	s.Target = path.Clean(s.Target)
	err := m.begin(ctx)
	if err == nil {
		err = m.mount(ctx, &s)
	}
	return wrap("mount", s.Source, s.Target, err)
}

// Unmount implements [Interface].
func (m *Mounter) Unmount(ctx context.Context, target string) error {
	if err := spec.CheckPath("Target", target); err != nil {
		return publicInputError("unmount", err)
	}
	target = path.Clean(target)
	err := m.begin(ctx)
	if err == nil {
		err = m.unmount(ctx, target)
	}
	return wrap("unmount", "", target, err)
}

// UnmountTree implements [Interface].
func (m *Mounter) UnmountTree(ctx context.Context, target string) error {
	if err := spec.CheckPath("Target", target); err != nil {
		return publicInputError("unmount tree", err)
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

// FollowLinks resolves all symbolic links of p, an absolute path, also a link at its end. The
// part of p from the first missing component on stays unchanged; that is no error. Like the
// methods of [Interface] FollowLinks returns soon after ctx ends, and at most one call per
// mount waits for its file system.
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

// query calls work with a checked, clean path.
func (m *Mounter) query(ctx context.Context, op, p string, work func(p string) error) error {
	if err := spec.CheckAbsolute("Path", p); err != nil {
		return publicInputError(op, err)
	}
	p = path.Clean(p)
	err := m.begin(ctx)
	if err == nil {
		err = work(p)
	}
	return wrap(op, "", p, err)
}

// MountsFrom implements [Interface].
func (m *Mounter) MountsFrom(ctx context.Context, source string) ([]Info, error) {
	if err := spec.CheckSource(source); err != nil {
		return nil, publicInputError("mounts from", err)
	}
	var mounts []Info
	err := m.begin(ctx)
	if err == nil {
		mounts, err = m.mountsFrom(ctx, source)
	}
	return mounts, wrap("mounts from", source, "", err)
}

// List implements [Interface].
func (m *Mounter) List(ctx context.Context) ([]Info, error) {
	var table []Info
	err := m.begin(ctx)
	if err == nil {
		table, err = m.list(ctx)
	}
	return table, wrap("list", "", "", err)
}

// wrap returns err as an [*Error]. Nil stays nil.
func wrap(op, source, target string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Source: source, Target: target, Err: withPrivilege(publicError(err))}
}
