package lookup

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// A StaleError is the error of a mount point whose mount of NFS no lookup enters any more: its directory
// was removed on the server. The mount is in the mount table, and umount2(2) removes it. The error
// wraps unix.ESTALE.
type StaleError struct {
	Mount mountinfo.Entry // the top mount there
}

func (e *StaleError) Error() string {
	return "the mounted directory was removed: " + unix.ESTALE.Error()
}

func (e *StaleError) Unwrap() error { return unix.ESTALE }

// errMountPoint is the error of a lookup that does not enter the mount at its name.
var errMountPoint = errors.New("mount point")

// openInMount opens a name in a directory of a local file system without entering another mount: a
// mount point is errMountPoint (Linux 5.6). It waits for the disk at most.
func openInMount(dir int, name string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	fd, err := kernel.RetryOpen(func() (int, error) { return unix.Openat2(dir, name, &how) })
	if errors.Is(err, unix.EXDEV) {
		return -1, errMountPoint
	}
	return fd, err
}

// isLocal reports whether the file system of a directory is local.
func isLocal(dir int) bool {
	var x unix.Statfs_t
	return unix.Fstatfs(dir, &x) == nil && record.LocalKinds[uint64(x.Type)]
}

// enterCached opens the root of the top mount at a mount point in a directory of a local file system, as
// far as the kernel has it in memory: the errors of [kernel.IsUncached] leave it open. NFS has the root in
// memory, unless the root has no links any more: then each lookup waits for the server. So a mount of
// NFS that no cached lookup enters is a [*StaleError], if cached lookups work in its parent directory.
func (l Lookup) enterCached(ctx context.Context, parent int, name string) (int, error) {
	const maxPause = 16 * time.Millisecond
	for pause := time.Millisecond; ; pause *= 2 { // changes of the mount table make cached lookups fail
		fd, err := kernel.OpenCached(parent, name, 0, l.resolve())
		if !errors.Is(err, unix.EAGAIN) {
			return fd, l.explain(err)
		}
		if pause > maxPause {
			break
		}
		if err := ctxend.Sleep(ctx, pause); err != nil {
			return -1, err
		}
	}
	itself, err := kernel.OpenCached(parent, ".", 0, 0) // security modules can prevent cached lookups
	if err != nil {
		return -1, unix.EAGAIN
	}
	kernel.Close(itself)
	top, err := findNFS(ctx, parent, name)
	switch {
	case errors.Is(err, mountinfo.ErrNotInTable):
		return -1, unix.EAGAIN
	case err != nil:
		return -1, err
	}
	return -1, &StaleError{top}
}

// reopen opens a name again after ESTALE, which is the error of a removed parent directory, too. It returns
// a [*StaleError] if the name is the mount point of NFS.
func reopen(ctx context.Context, parent int, name string) (int, error) {
	fd, err := openInMount(parent, name)
	switch {
	case kernel.IsUncached(err): // the kernel lacks openat2(2)
		return -1, unix.ESTALE
	case !errors.Is(err, errMountPoint):
		return fd, err
	}
	top, err := findNFS(ctx, parent, name)
	if err != nil {
		return -1, unix.ESTALE
	}
	return -1, &StaleError{top}
}

// findNFS returns the top mount at a name in a directory from the mount table, if it is one of NFS.
// Without it the error wraps mountinfo.ErrNotInTable. It is not found above an automount trigger, which
// lookups also enter uncached.
func findNFS(ctx context.Context, parent int, name string) (mountinfo.Entry, error) {
	dir, err := kernel.PathOf(parent)
	if err != nil {
		return mountinfo.Entry{}, err
	}
	table, err := mountinfo.Read(ctx)
	if err != nil {
		return mountinfo.Entry{}, err
	}
	target := path.Join(dir, name)
	at, ok := mountinfo.ViewEntries(table).At(target)
	isTrigger := func(e mountinfo.Entry) bool { return e.Mountpoint == target && e.FSType == "autofs" }
	if !ok || !mountinfo.IsNFS(table[at].FSType) || slices.ContainsFunc(table, isTrigger) {
		return mountinfo.Entry{}, mountinfo.ErrNotInTable
	}
	return table[at], nil
}
