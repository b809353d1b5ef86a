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

// applyChange applies a change to a descriptor's file, while goOn permits it.
func applyChange(fd int, c change, goOn func() bool) error {
	if c.chown && goOn() {
		if err := fchownat(fd, "", int(c.uid), int(c.gid), unix.AT_EMPTY_PATH); err != nil {
			return beneath.NameUnmapped(err, c.uid, c.gid)
		}
	}
	if c.chmod && goOn() {
		return chmod(fd, c.mode)
	}
	return nil
}

// chmod is [beneath.Chmod] with the system call that tests replace.
func chmod(fd int, mode uint32) error { return beneath.ChmodBy(fchmodat, fd, mode) }
