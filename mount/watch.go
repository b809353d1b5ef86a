package mount

import "context"

// A Watcher reports changes of the mount table. A [*Mounter] is one.
type Watcher interface {
	// Watch calls changed once, and soon after each mount, unmount, move or remount in the
	// caller's mount namespace, by this process or another one; one call may stand for several
	// changes. All calls come from one goroutine, which sleeps between them. Watch returns
	// ctx's cause when ctx ends, and an error that wraps errors.ErrUnsupported if the system
	// does not report changes.
	Watch(ctx context.Context, changed func()) error
}

var _ Watcher = (*Mounter)(nil)

// Watch implements [Watcher].
func (m *Mounter) Watch(ctx context.Context, changed func()) error {
	return wrap("watch", "", "", m.watch(ctx, changed))
}

// A TableWatcher reports attached, detached and moved mounts. A [*Mounter] is one.
type TableWatcher interface {
	// WatchMounts calls changed once with Everything, and soon after mounts were attached,
	// detached or moved in the caller's mount namespace, by this process or another one. All
	// calls come from one goroutine, which sleeps between them. Unlike Watch it reports
	// neither remounts nor changes of peer groups. It returns ctx's cause when ctx ends, and
	// an error that wraps errors.ErrUnsupported if the kernel does not name changed mounts:
	// before Linux 6.15, or without CAP_SYS_ADMIN in the user namespace of the mount
	// namespace.
	WatchMounts(ctx context.Context, changed func(TableChange)) error
}

var _ TableWatcher = (*Mounter)(nil)

// A TableChange names attached, detached and moved mounts.
type TableChange struct {
	Mounts []MountChange
	// Everything: any mount may have changed, since the kernel has lost events, or mounts
	// have moved together with a named mount.
	Everything bool
}

// A MountChange is the present place of a mount. It may stand for several changes.
type MountChange struct {
	ID uint64 // see Identifier
	// Parent is the parent mount, and Target the mount point. Both are zero for a detached
	// mount. Target is also empty for a mount outside of the root of the process.
	Parent uint64
	Target string
}

// WatchMounts implements [TableWatcher].
func (m *Mounter) WatchMounts(ctx context.Context, changed func(TableChange)) error {
	return wrap("watch mounts", "", "", m.watchMounts(ctx, changed))
}
