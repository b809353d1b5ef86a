package ownership

import (
	"errors"
	"strconv"
	"sync"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// The calls that change something. Tests put others here.
var (
	fchownat = unix.Fchownat
	fchmodat = unix.Fchmodat
)

const wanted = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_UID | unix.STATX_GID

// stateOf asks what an entry is like, and whether something is mounted there.
func stateOf(dir int, name string, flags int) (s state, mounted bool, err error) {
	var x unix.Statx_t
	flags |= unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(dir, name, flags, wanted, &x); err != nil {
		return state{}, false, err
	}
	s = state{kind: other, uid: x.Uid, gid: x.Gid, mode: uint32(x.Mode) &^ unix.S_IFMT}
	switch x.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		s.kind = directory
	case unix.S_IFLNK:
		s.kind = symlink
	}
	return s, x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// carryOut changes what a descriptor is of, if goOn still lets it.
func carryOut(fd int, c change, goOn func() bool) error {
	if c.chown && goOn() {
		if err := fchownat(fd, "", int(c.uid), int(c.gid), unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if c.chmod && goOn() {
		return chmod(fd, c.mode)
	}
	return nil
}

// chmod is of a descriptor that may be an O_PATH one. It opens nothing: the link in
// proc leads to the inode itself.
func chmod(fd int, mode uint32) error {
	if hasFchmodat2() {
		return fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	}
	return fchmodat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), mode, 0)
}

func hasFchmodat2() bool { return !beneath.WithoutOpenat2 && probeFchmodat2() }

// probeFchmodat2 asks for a descriptor that nobody has. A filter may say EPERM, and a
// kernel before 6.6 has none.
var probeFchmodat2 = sync.OnceValue(func() bool {
	return errors.Is(unix.Fchmodat(-1, "", 0, unix.AT_EMPTY_PATH), unix.EBADF)
})
