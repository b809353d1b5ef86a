package mount

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// A target is where a mount goes, resolved once.
type target struct {
	parent  int    // the directory that holds it
	name    string // its name in there
	fd      int    // what is there; if mounted, the root of the top mount
	mounted bool
	dir     bool
	mountID uint64 // that fd is in
}

func (m *Mounter) openTarget(ctx context.Context, path string) (*target, error) {
	l := lookup{m: m, ctx: ctx}
	parent, name, err := l.parent(path)
	if err != nil {
		return nil, err
	}
	t := &target{parent: parent, name: name, fd: -1}
	if err := t.open(l); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *target) open(l lookup) (err error) {
	if t.fd, err = l.child(t.parent, t.name); err != nil {
		return err
	}
	id, err := identify(t.fd)
	if err != nil {
		return err
	}
	above, err := identify(t.parent)
	t.dir, t.mountID, t.mounted = id.dir, id.mount, id.mount != above.mount
	return err
}

func (t *target) close() {
	closeFD(t.fd, t.parent)
}

// A source is the directory or file that is bound, resolved once.
type source struct {
	fd    int
	id    identity
	clone int // the same, elsewhere, to be cloned in its stead; -1: fd itself
	// prove is that the clone has to show that nothing is mounted below; staged that
	// it is made in a staging area.
	prove, staged bool
}

// cloneFD is what to clone.
func (s *source) cloneFD() int {
	if s.clone >= 0 {
		return s.clone
	}
	return s.fd
}

func (m *Mounter) openBindSource(ctx context.Context, req Request, wantDir bool) (*source, error) {
	fd, err := m.openSource(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	src := &source{fd: fd, clone: -1}
	if src.id, err = identify(fd); err != nil {
		src.close()
		return nil, fmt.Errorf("source: %w", err)
	}
	if src.id.dir != wantDir {
		src.close()
		return nil, fmt.Errorf("one of source and target is a directory, the other is not: %w", unix.ENOTDIR)
	}
	return src, nil
}

func (s *source) close() { closeFD(s.fd, s.clone) }

// An identity says what a descriptor refers to.
type identity struct {
	major, minor uint32
	inode        uint64
	mount        uint64 // the mount's number in the mount table; 0: unknown
	dir          bool
}

// sameObject reports whether both are the same directory or file, through
// whichever mount.
func (i identity) sameObject(j identity) bool {
	return i.major == j.major && i.minor == j.minor && i.inode == j.inode
}

// identify asks no server: what the kernel remembers is enough.
func identify(fd int) (identity, error) {
	var x unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_MNT_ID
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|quiet, mask, &x); err != nil {
		return identity{}, err
	}
	id := identityOf(&x)
	if x.Mask&unix.STATX_MNT_ID != 0 {
		id.mount = x.Mnt_id
		return id, nil
	}
	mountID, err := safepath.MountID(fd) // Linux before 5.8
	id.mount = uint64(mountID)
	return id, err
}

// identityOf has all but the mount.
func identityOf(x *unix.Statx_t) identity {
	return identity{
		major: x.Dev_major, minor: x.Dev_minor, inode: x.Ino,
		dir: x.Mode&unix.S_IFMT == unix.S_IFDIR,
	}
}

// procFD is a path that leads to the descriptor, for calls that take only paths.
func procFD(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// closeFD closes the descriptors that are some.
func closeFD(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
