package ownership

import (
	"errors"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// withoutClones makes tests take the way of those who may not mount.
var withoutClones bool

// apart returns the directory in a mount of its own, which nobody sees: nothing is
// mounted in it, and nothing can be from then on. So a name leads to what is in the
// file system, and needs not be opened to know that. It takes open_tree(2),
// mount_setattr(2) (Linux 5.12) and the right to mount.
func apart(dir int, home beneath.Place) (int, beneath.Place, bool) {
	if withoutClones {
		return -1, beneath.Place{}, false
	}
	fd, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, beneath.Place{}, false
	}
	// What has spread to it before this is seen like any other mount.
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE})
	var at beneath.Place
	if err == nil {
		at, err = beneath.Identify(fd)
	}
	if err == nil && identityOf(at) != identityOf(home) {
		err = beneath.ErrMoved
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, beneath.Place{}, false
	}
	return fd, at, true
}

var errNoMode = errors.New("it takes more than an owner")

// byName changes the owner of what is no directory, where no name leads to another
// mount. Whatever gets the name meanwhile is in the directory, too; it loses
// set-user-ID by the kernel's own doing. A mode is not given by name: it was that of
// what was there before.
func (w *walker) byName(f *frame, name string) error {
	s, mounted, err := stateOf(f.FD, name, 0)
	switch {
	case err != nil:
		return err
	case mounted:
		return unix.EXDEV
	case s.kind == directory:
		return errIsDirectory
	}
	c := w.change(s)
	if c.chmod {
		return errNoMode
	}
	w.tally.seen.Add(1)
	if c.none() {
		return nil
	}
	if w.first(); !w.GoOn() {
		return nil
	}
	if err := fchownat(f.FD, name, int(c.uid), int(c.gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	w.tally.changed.Add(1)
	return nil
}
