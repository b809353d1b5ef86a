package mount

import (
	"context"
	"os"
)

// A Request describes one mount.
type Request struct {
	// Source is the absolute path of a directory or file for a bind mount; a device,
	// "server:/export", or any word for a file system without a source (tmpfs).
	//
	// A path of a bind mount with a symbolic link in it is refused, since a process that can
	// replace the link could choose the mounted directory. Callers that trust a path resolve
	// it first (filepath.EvalSymlinks).
	Source string

	// SourceFile is the source of a bind mount instead of the path Source: an open directory
	// or file, if only with O_PATH, that the caller has resolved and checked. No path is
	// resolved again, so no other process can replace the source meanwhile. Source may be
	// empty then; only errors use it. The caller may close the file when Mount has returned.
	SourceFile *os.File

	// Target is the absolute path of an existing directory, or of an existing file if Source
	// is a file. A path with a symbolic link in it is refused.
	Target string

	// FSType is the file system type, as in mount(8) -t. Empty: a bind mount.
	FSType string

	// Options are mount(8) options, one per element; [Request.Parse] lists the accepted ones.
	// As by mount(8), quotes around a value are for mount(2) and programs: fsconfig(2) receives
	// the value without them.
	Options []string

	// Secrets are further options for the file system. They appear in no error, log or
	// command line.
	Secrets []Secret

	// Stack mounts on top of an existing mount at Target. Without it an existing mount
	// stays the top mount, see [Interface].
	Stack bool

	// Submounts is the treatment of mounts below the source of a bind mount. The zero value
	// refuses a source with such mounts.
	Submounts Submounts

	// Propagation is the propagation of the new mount. The zero value is none.
	Propagation Propagation

	// IDMap shows other owners than the file system stores. The file system has to support
	// it (Linux 5.12 and later, by type). The zero value maps nothing.
	IDMap IDMap

	// Helper selects whether the program mount.TYPE mounts the file system. By the zero
	// value [Config.Helpers] and the type decide.
	Helper HelperUse

	// DeviceFile permits a device file as the source of a bind mount: a raw block volume. Unlike
	// [Allow].Dev, it does not permit device files in directories and file systems. No "nodev"
	// is added to the mount; one in Options, or of the source's mount, stays, and the device
	// cannot be opened then. A source of another kind is mounted as without DeviceFile. Set it
	// only for a source that no pod can replace, since a container may make device files.
	DeviceFile bool

	// Remount changes the flags of the existing mount at Target to those that Options name.
	// Flags that Options do not name stay, and no option is added. Only the mount changes,
	// not its file system. All fields but Target and Options must be empty.
	Remount bool
}

// Submounts is the treatment of mounts below the source of a bind mount.
type Submounts int

const (
	// RefuseSubmounts makes Mount fail, with an error that wraps [ErrSubmounts], if any mount
	// is below the source. (A mount whose directory, or one above, was renamed since is
	// searched at the path where it was attached; see the package doc.)
	RefuseSubmounts Submounts = iota
	// HideSubmounts shows the source's own mount alone: the directories under the mounts
	// below it become visible.
	HideSubmounts
	// IncludeSubmounts shows the mounts below the source, too, each with the flags of the
	// request. [Interface.UnmountTree] of the target unmounts all of them. (Below a target in
	// a shared mount, the copies that its peers have received of the mounts below stay.)
	IncludeSubmounts
)

// A HelperUse selects the program mount.TYPE or the kernel's calls alone for a file system.
type HelperUse int

const (
	// HelperIfFound uses the program if [Config.Helpers] has it.
	HelperIfFound HelperUse = iota
	// HelperNever uses the kernel's calls alone.
	HelperNever
	// HelperAlways uses the program, for every type. If the program is missing Mount fails
	// with a [*HelperError] that wraps exec.ErrNotFound.
	HelperAlways
)

// Propagation is mount propagation, mount_namespaces(7), with the three values of
// Kubernetes: None, HostToContainer and Bidirectional.
type Propagation int

const (
	// PropagationPrivate: mounts propagate neither from the source nor to it.
	PropagationPrivate Propagation = iota
	// PropagationSlave: later mounts in the source appear in the new mount, too, if the
	// source's mount is shared. (A mount of a file system receives none.)
	PropagationSlave
	// PropagationShared: the new mount is shared. It joins the peer group of the source's
	// mount if that has one: later mounts and unmounts in one member, submounts included,
	// happen in all of them; see [Isolator].
	PropagationShared
)

// An IDMap maps the owners that a file system stores to the owners that a mount shows. IDs
// outside of all ranges are shown as the overflow ID (65534) and cannot be written.
type IDMap struct {
	UIDs, GIDs []IDRange
}

// An IDRange maps Count consecutive IDs. The first one is Stored in the file system and
// Shown in the mount.
type IDRange struct{ Stored, Shown, Count uint32 }

// A Place is the position of a path: a mount, and a path inside it.
type Place struct {
	Mount Info   // the mount that contains the path, or has it as mount point
	Path  string // in that mount, "/" for its root
}

// Interface is the part of the kernel that volume plugins use.
//
// Methods are safe for concurrent use. Errors are of type [*Error], or of type [*InputError]
// for an invalid request. errors.Is and errors.As find their causes: [ErrBusy],
// [ErrReadOnly], [ErrCorrupted], fs.ErrPermission, fs.ErrNotExist, errors.ErrUnsupported.
//
// A method returns soon after its context ends, with an error that wraps context.Cause(ctx),
// even if the file systems at its paths, or on the way to them, do not answer. A call that
// the kernel has not completed by then continues in the background. It changes no mount any
// more, unless the error wraps [ErrUncertain]: then the change was already in progress. Each
// mount that does not answer has at most one such call: later calls wait for it until their
// own contexts end.
//
// Further abilities, which not every mounter has, are interfaces of their own: [As] finds them.
type Interface interface {
	// Mount makes req.Source visible at req.Target. The mount appears complete (read-only
	// from the first instant, if requested) or not at all, and is verified before Mount
	// returns nil.
	//
	// Mount is idempotent: it returns nil without a change if the top mount at req.Target is
	// the requested one, with the same flags. (For a bind mount it compares the directory or
	// file; for a file system the type and the source, not the options for the file system; for a
	// block device its number, not its name.)
	// If it is a FUSE mount whose daemon has gone, the error wraps [ErrCorrupted]. A daemon
	// that does not answer within a second is taken as alive; the question keeps its file
	// system, not the mount, in use until the answer.
	// If the top mount is another one the error wraps [ErrMounted], and is a [*FlagsError] if
	// only the flags differ. After an error nothing of the request is mounted, unless the error
	// wraps [ErrUncertain].
	//
	// A bind mount of a source with other mounts below it is refused unless req.Submounts
	// selects their treatment. It joins the source's peer group (mount_namespaces(7)) only if
	// req.Propagation is [PropagationShared].
	//
	// With req.Remount the flags of the mount at req.Target change. If req.Target is no mount
	// point the error wraps [ErrNotMounted].
	//
	// A bind mount of a device file is an [*InputError] unless [Request].DeviceFile or
	// [Allow].Dev is set, or the request has "nodev": the device could not be opened through
	// the mount.
	//
	// The error of a missing source or target wraps fs.ErrNotExist, of a symbolic link on the
	// way unix.ELOOP (FollowLinks of [Mounter] resolves it), of a bind mount of a file on a
	// directory (or the other way round) unix.ENOTDIR.
	Mount(ctx context.Context, req Request) error

	// Unmount unmounts the top mount at target. A target that is no mount point, or is a
	// symbolic link, is no error, and nothing changes; a missing target is an error that
	// wraps fs.ErrNotExist. Of several mounts stacked at target one is unmounted. A busy mount
	// stays, and the error wraps [ErrBusy]; but if its file system does not answer,
	// [UnmountPolicy] applies.
	//
	// A nil error for the last mount of a file system means that the file system has ended
	// and its device is free, unless processes still use a mount that the policy has
	// detached. If ctx ends before the file system, the error wraps [ErrNotEnded]: the mount
	// has left the mount table, the target accepts new mounts, and this process can exit.
	// A further Unmount of the target waits for the same end.
	//
	// If ctx ends while the kernel may still unmount, the error wraps [ErrUncertain], and no
	// other call of this Interface changes the target until the kernel is done. This can
	// happen if the directory of the target is on a file system with a server or daemon (NFS,
	// FUSE), on Linux before 6.8, and if open_tree(2) is forbidden or missing.
	Unmount(ctx context.Context, target string) error

	// UnmountTree unmounts the top mount at target with all mounts inside it, the deepest
	// first, each as Unmount does. It stops at the first failure: the mounts before it stay
	// unmounted; the text of the error names the mount point that failed. A target that is no
	// mount point is no error, and nothing changes, even if mounts are below it.
	UnmountTree(ctx context.Context, target string) error

	// IsMountPoint reports whether path is a mount point. It reads the mount table alone,
	// never the mounted file system, so a dead server cannot delay it. A symbolic link is not
	// followed: it is no mount point. A missing path is an error that wraps fs.ErrNotExist.
	IsMountPoint(ctx context.Context, path string) (bool, error)

	// MountRefs returns the other mount points at which the directory or file at path is
	// visible (the same device, and the same root inside it), sorted, without duplicates.
	// Path need not be a mount point. Hidden mounts are omitted.
	MountRefs(ctx context.Context, path string) ([]string, error)

	// MountsFrom returns the mounts of a source, in the kernel's order, with hidden ones. For
	// a block device (an absolute path, symbolic links followed) it compares device numbers
	// with that of the file system on it; for other sources ("server:/export") the text of
	// the source. Bind mounts of such mounts are included. An empty result is no error.
	MountsFrom(ctx context.Context, source string) ([]Info, error)

	// Resolve returns the mount that contains path, and the path inside it. It follows the
	// symbolic links on the way, but not a link at path itself. A missing path is an error
	// that wraps fs.ErrNotExist.
	Resolve(ctx context.Context, path string) (Place, error)

	// List returns the mount table of the caller's mount namespace in the kernel's order,
	// with hidden mounts. The caller may change the result.
	List(ctx context.Context) ([]Info, error)
}
