package mount

import (
	"context"
	"os"
)

// A Request describes one mount.
type Request struct {
	// Source is what is mounted: an absolute path of a directory or file for a
	// bind mount, a device, "server:/export", or any word for a file system
	// without a source (tmpfs).
	//
	// The source of a bind mount is not reached through a symbolic link: a path
	// that has one is refused, since whoever can replace a link chooses what is
	// mounted. Callers that trust a path resolve it first (filepath.EvalSymlinks).
	Source string

	// SourceFile is what a bind mount shows, instead of what is at Source: a directory
	// or file that is open, if only with O_PATH, and that the caller has resolved and
	// looked at. No path is resolved again, so nobody can put something else there
	// meanwhile. Source may be empty then; it is for errors alone. The caller may
	// close the file when Mount has returned.
	SourceFile *os.File

	// Target is the absolute path of an existing directory, or of an existing
	// file if Source is a file. It, too, is not reached through a symbolic link.
	Target string

	// FSType is the file system's type, as in mount(8) -t. Empty: a bind mount.
	FSType string

	// Options are mount(8) options, one each, without commas. [Request.Parse]
	// says which are accepted.
	Options []string

	// Secrets are further options for the file system that appear in no error,
	// log or command line.
	Secrets []Secret

	// Stack mounts on top of whatever is mounted at Target already. Without it
	// a target that is a mount point is left as it is, see [Interface].
	Stack bool

	// Submounts says what becomes of the mounts below the source of a bind mount.
	// The zero value refuses a source that has any.
	Submounts Submounts

	// Propagation says whether mounts and unmounts spread to and from the new
	// mount. By the zero value they do not.
	Propagation Propagation

	// IDMap shows other owners than are stored. The file system has to support it
	// (Linux 5.12 and later, by type). The zero value maps nothing.
	IDMap IDMap

	// Helper says whether the program mount.TYPE mounts the file system. The zero
	// value leaves it to [Config.Helpers] and the type.
	Helper HelperUse

	// Remount changes the flags of what is mounted at Target to what Options say,
	// and leaves those that they do not name; nothing is added to them. Only the
	// mount changes, not its file system. With it all other fields but Target and
	// Options are empty.
	Remount bool
}

// Submounts says what a bind mount does with the mounts below its source.
type Submounts int

const (
	// RefuseSubmounts makes Mount fail, with an error that wraps [ErrSubmounts],
	// if anything is mounted below the source. (A mount whose directory, or one
	// above, was renamed since is looked for where it was; see the package doc.)
	RefuseSubmounts Submounts = iota
	// HideSubmounts shows the source's own mount alone: what lies under the mounts
	// below it.
	HideSubmounts
	// IncludeSubmounts shows the mounts below the source, too, each with the flags
	// of the request. The whole is one mount to Unmount: unmounting the target
	// with [Interface.UnmountTree] takes all of it down. (Below a target that is in a
	// shared mount, what its peers got of the mounts below stays there.)
	IncludeSubmounts
)

// A HelperUse says who mounts a file system: the program mount.TYPE, or the kernel's
// calls alone.
type HelperUse int

const (
	// HelperIfFound uses the program where [Config.Helpers] has it.
	HelperIfFound HelperUse = iota
	// HelperNever uses the kernel's calls alone.
	HelperNever
	// HelperAlways uses the program, of whatever type. If it is missing Mount fails
	// with a [*HelperError] that wraps exec.ErrNotFound.
	HelperAlways
)

// Propagation is mount propagation, mount_namespaces(7), as Kubernetes has it:
// None, HostToContainer and Bidirectional.
type Propagation int

const (
	// PropagationPrivate: mounts spread neither from nor to the source.
	PropagationPrivate Propagation = iota
	// PropagationSlave: what is mounted in the source later appears in the new
	// mount, too, if the source's mount is shared. (Of a file system: none.)
	PropagationSlave
	// PropagationShared: the new mount is shared; it joins the peer group of the
	// source's mount if that has one: what is mounted in one of them later, and
	// what is unmounted, submounts included, is so in both; see [Isolator].
	PropagationShared
)

// An IDMap maps the owners that a file system stores to the ones that a mount
// shows. IDs in no range are shown as the overflow ID (65534) and cannot be
// written.
type IDMap struct {
	UIDs, GIDs []IDRange
}

// An IDRange maps Count consecutive IDs, the first of which is Stored in the file
// system and Shown in the mount.
type IDRange struct{ Stored, Shown, Count uint32 }

// empty reports whether nothing is mapped.
func (m IDMap) empty() bool { return len(m.UIDs) == 0 && len(m.GIDs) == 0 }

// A Place is where a path leads: a mount, and a path inside it.
type Place struct {
	Mount Info   // the mount that the path is in, or at
	Path  string // in that mount, "/" for its root
}

// Interface is what the volume plugins need of the kernel.
//
// Methods are safe for concurrent use. Errors are of type [*Error], or of type
// [*InputError] if the request itself is at fault; both work with errors.Is
// and errors.As: [ErrBusy], [ErrReadOnly], [ErrCorrupted], fs.ErrPermission,
// fs.ErrNotExist, errors.ErrUnsupported tell the usual causes apart.
//
// A method returns soon after its context ends, with an error that wraps
// context.Cause(ctx), whatever the file systems on the way to its paths, and at
// them, do. A call that the kernel still holds then goes on in the background, but
// can no longer change what is mounted, unless the error wraps [ErrUncertain]:
// then the change itself was under way. For each mount that does not answer there
// is at most one such call: later ones wait for it, as long as their own contexts
// let them.
type Interface interface {
	// Mount makes req.Source visible at req.Target. What it mounts appears there
	// complete (read-only from the first instant, if asked) or not at all, and is
	// verified before Mount returns nil.
	//
	// Mount is idempotent: if the top mount at req.Target is what req asks for
	// already, with the same flags, it returns nil and has changed nothing. (Of a
	// bind mount the directory or file is compared; of a file system its type and
	// source, not the options that are left for it.) If something else is mounted
	// there the error wraps [ErrMounted]. After an error nothing of the request is
	// mounted, unless the error wraps [ErrUncertain].
	//
	// A bind mount of a source with other mounts below it is refused unless
	// req.Submounts says what to do with them. It joins the source's peer group
	// (mount_namespaces(7)) only if req.Propagation says so.
	//
	// With req.Remount the flags of the mount at req.Target change; if nothing is
	// mounted there the error wraps [ErrNotMounted].
	//
	// The error of a missing source or target wraps fs.ErrNotExist, of a symbolic
	// link on the way unix.ELOOP, of a file to be bound on a directory (or the
	// other way round) unix.ENOTDIR.
	Mount(ctx context.Context, req Request) error

	// Unmount undoes the top mount at target. A target that is no mount point, or
	// is a symbolic link, is no error and nothing is changed; a missing one is an
	// error that wraps fs.ErrNotExist. Of several mounts stacked at target one is
	// undone. A mount in use is an error that wraps [ErrBusy], and stays; but one
	// whose file system does not answer is taken down by [UnmountPolicy].
	//
	// When it returns nil for the last mount of a file system, that has ended, and
	// its device is free; unless somebody still uses what the policy took down. If
	// ctx ends first the error wraps [ErrNotEnded]: nothing is mounted there any more,
	// the target can be mounted on again, and this process can exit. Unmount of the
	// same target then goes on waiting.
	//
	// If ctx ends while the kernel may still unmount something, the error wraps
	// [ErrUncertain], and until it is done nobody else can change the target by this
	// Interface. So it is where the directory of the target is on a file system that
	// has to be asked for a name (NFS, FUSE), on Linux before 6.8, and where
	// open_tree(2) is forbidden or missing.
	Unmount(ctx context.Context, target string) error

	// UnmountTree undoes the top mount at target and everything that is mounted
	// inside it, the deepest first, each as Unmount does. It stops at the first that
	// fails: what was unmounted by then stays unmounted; the error's text names the
	// one. A target that is no mount point is no error and nothing is changed,
	// whatever is mounted below it.
	UnmountTree(ctx context.Context, target string) error

	// IsMountPoint reports whether something is mounted at path. It asks the mount
	// table alone, never the file system that is mounted there, so a dead server
	// cannot hold it up. A symbolic link is not followed: it is no mount point. A
	// missing path is an error that wraps fs.ErrNotExist.
	IsMountPoint(ctx context.Context, path string) (bool, error)

	// MountRefs returns the other mount points at which what is at path is visible
	// (the same device, and the same root inside it), sorted, each once. Path need
	// not be a mount point itself. Mounts that are hidden under others are left out.
	MountRefs(ctx context.Context, path string) ([]string, error)

	// MountsFrom returns the mounts of a source, in the kernel's order, hidden ones
	// included: of a block device (an absolute path, symbolic links followed) those
	// of the file system on it, by device number; of anything else ("server:/export")
	// those whose source is written so. Bind mounts of them are among them. None is
	// no error.
	MountsFrom(ctx context.Context, source string) ([]Info, error)

	// Resolve tells which mount path is in and where in it, with the symbolic links
	// on its way followed, but not one that it is itself. A missing path is an error
	// that wraps fs.ErrNotExist.
	Resolve(ctx context.Context, path string) (Place, error)

	// List returns the mount table of the caller's mount namespace in the kernel's
	// order, hidden mounts included. The caller may change what it returns.
	List(ctx context.Context) ([]Info, error)
}
