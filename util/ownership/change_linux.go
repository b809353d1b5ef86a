package ownership

import (
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// The system calls that change files. Tests replace them.
var (
	fchownat = unix.Fchownat
	fchmodat = unix.Fchmodat
)

const stateMask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_UID | unix.STATX_GID

// stateOf returns the state of an entry, and whether it is a mount point.
func stateOf(dir int, name string, flags int) (s state, mounted bool, err error) {
	var x unix.Statx_t
	flags |= unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(dir, name, flags, stateMask, &x); err != nil {
		return state{}, false, err
	}
	return stateIn(&x), x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// stateOfFile returns the state of an entry, which must be no directory and no mount point.
func stateOfFile(dir int, name string) (state, error) {
	s, mounted, err := stateOf(dir, name, 0)
	switch {
	case err != nil:
		return state{}, err
	case mounted:
		return state{}, unix.EXDEV
	case s.kind == directory:
		return state{}, errIsDirectory
	}
	return s, nil
}

func stateIn(x *unix.Statx_t) state {
	s := state{kind: other, uid: x.Uid, gid: x.Gid, mode: uint32(x.Mode) &^ unix.S_IFMT}
	switch x.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		s.kind = directory
	case unix.S_IFLNK:
		s.kind = symlink
	}
	return s
}

// stateAndPlace returns the state and the place of a descriptor by one system call.
func stateAndPlace(fd int) (state, beneath.Place, error) {
	var x unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(fd, "", flags, stateMask|beneath.PlaceMask, &x); err != nil {
		return state{}, beneath.Place{}, err
	}
	at, err := beneath.PlaceOf(fd, &x)
	return stateIn(&x), at, err
}

// applyChange changes the owner and then the mode of a descriptor's file, while the work goes on.
// Where the file system may ignore changes it reads each one back. After an ignored change of
// owner the mode stays: it would give access to the wrong group.
func (w *work) applyChange(fd int, c change) error {
	if c.chown && w.GoOn() {
		if err := fchownat(fd, "", int(c.uid), int(c.gid), unix.AT_EMPTY_PATH); err != nil {
			return beneath.NameUnmapped(err, c.uid, c.gid)
		}
		if w.ignores(fd, "", unix.AT_EMPTY_PATH, change.changesOwner) {
			return ErrIgnored
		}
	}
	if c.chmod && w.GoOn() {
		if err := chmod(fd, c.mode); err != nil {
			return err
		}
		if w.ignores(fd, "", unix.AT_EMPTY_PATH, change.changesAccess) {
			return ErrIgnored
		}
	}
	return nil
}

// ignores reports whether an entry needs a change that was made before, in a file system that may
// ignore changes. An answer of the server is not awaited: the kernel has kept that to the change.
func (w *work) ignores(dir int, name string, flags int, needs func(change, state) bool) bool {
	if !w.mayIgnore || !w.GoOn() {
		return false
	}
	s, _, err := stateOf(dir, name, flags|unix.AT_STATX_DONT_SYNC)
	return err == nil && needs(w.change(s), s)
}

// mayIgnore reports whether a directory's file system may report a change as done that it does
// not make. Those below are known to make it; reading back costs a system call for each change.
func mayIgnore(dir int) bool {
	var s unix.Statfs_t
	if unix.Fstatfs(dir, &s) != nil {
		return true
	}
	switch s.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return false
	}
	return true
}

// chmod is [beneath.Chmod] with the system call that tests replace.
func chmod(fd int, mode uint32) error { return beneath.ChmodBy(fchmodat, fd, mode) }
