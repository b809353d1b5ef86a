package mount

import "context"

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
}

// Interface is what the volume plugins need of the kernel.
//
// Methods are safe for concurrent use. Errors are of type [*Error], or of type
// [*InputError] if the request itself is at fault; both work with errors.Is
// and errors.As.
//
// A method that takes a context returns soon after it ends, with an error that
// wraps context.Cause(ctx), whatever the file system at the path does. A call
// that the kernel still holds then goes on in the background, but can no longer
// attach a mount, unless the error wraps [ErrUncertain]: then the change itself was
// under way. There is never more than one such call for a target: a later one of
// the same kind waits for it, as long as its own context lets it.
//
// The directories that lead to a path are taken to be on file systems that answer:
// the calls without a context wait for them.
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
	// A bind mount shows one mount: what is mounted below the source is not in it.
	// It does not join the source's peer group (mount_namespaces(7)).
	//
	// The error of a missing source or target wraps fs.ErrNotExist, of a symbolic
	// link on the way unix.ELOOP, of a file to be bound on a directory (or the
	// other way round) unix.ENOTDIR.
	Mount(ctx context.Context, req Request) error

	// Unmount undoes the top mount at target. A target that is no mount point, or
	// is a symbolic link, is no error and nothing is changed; a missing one is an
	// error that wraps fs.ErrNotExist. Of several mounts stacked at target one is
	// undone. A mount in use is an error that wraps unix.EBUSY, and stays.
	//
	// If ctx ends while the kernel is at it, the error wraps [ErrUncertain].
	Unmount(ctx context.Context, target string) error

	// IsMountPoint reports whether something is mounted at path. It asks the mount
	// table alone, never the file system that is mounted there, so a dead server
	// cannot hold it up. A symbolic link is not followed: it is no mount point. A
	// missing path is an error that wraps fs.ErrNotExist.
	IsMountPoint(path string) (bool, error)

	// MountRefs returns the other mount points at which what is at path is visible
	// (the same device, and the same root inside it), sorted, each once. Path need
	// not be a mount point itself. Mounts that are hidden under others are left out.
	MountRefs(path string) ([]string, error)

	// List returns the mount table of the caller's mount namespace in the kernel's
	// order, hidden mounts included.
	List() ([]Info, error)
}
