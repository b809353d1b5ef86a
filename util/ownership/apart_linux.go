package ownership

import (
	"errors"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// withoutClones disables detached clones of mounts, for tests.
var withoutClones bool

// cloneWithoutSubmounts opens the directory in a detached private clone of its mount. The
// clone has no submounts and gets none later, so every name in it leads to an entry of the
// same file system and need not be opened to verify that. It requires open_tree(2),
// mount_setattr(2) (Linux 5.12) and CAP_SYS_ADMIN, and returns false without them.
func cloneWithoutSubmounts(dir int, home beneath.Place) (int, beneath.Place, bool) {
	if withoutClones {
		return -1, beneath.Place{}, false
	}
	fd, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, beneath.Place{}, false
	}
	// A mount that has propagated into the clone before this call is detected like any other.
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

// errByDescriptor: an entry has to be changed by its descriptor.
var errByDescriptor = errors.New("not by name")

// changeByName changes the owner of an entry that is not a directory, by name, in a clone
// without submounts. If the name is replaced concurrently, the new entry is in the
// directory, too, and chown(2) clears its set-user-ID. A mode is not changed by name: it
// was computed for the entry before.
func (w *walker) changeByName(f *frame, name string) error {
	s, err := stateOfFile(f.FD, name)
	if err != nil {
		return err
	}
	c := w.change(s)
	if c.chmod {
		return errByDescriptor
	}
	w.tally.seen.Add(1)
	if c.none() {
		return nil
	}
	if w.first(); !w.GoOn() {
		return nil
	}
	if err := fchownat(f.FD, name, int(c.uid), int(c.gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return beneath.NameUnmapped(err, c.uid, c.gid)
	}
	if w.ignores(f.FD, name, 0, change.changesOwner) { // or another entry by now
		w.tally.seen.Add(-1) // it is counted by its descriptor
		return errByDescriptor
	}
	w.tally.changed.Add(1)
	return nil
}
