package podvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

var errNotKept = errors.New("the file system did not keep the mode")

// setOwnerAndMode gives the directory its owner and mode, by descriptor.
func setOwnerAndMode(dir string, want Dir) error {
	fd, err := safepath.Open(context.Background(), unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if want.Group != nil {
		if err := unix.Fchownat(fd, "", -1, int(*want.Group), unix.AT_EMPTY_PATH); err != nil {
			return beneath.NamePrivilege(beneath.NameUnmapped(err, -1, *want.Group), beneath.ToChown)
		}
	}
	mode := modeBits(want.Mode)
	if want.Mount != nil && checkMode(fd, mode) == nil { // by an option of the mount
		return nil
	}
	if err := beneath.Chmod(fd, mode); err != nil {
		return beneath.NamePrivilege(err, beneath.ToChange)
	}
	return checkMode(fd, mode)
}

// checkMode returns an error if an open directory has another mode, such as one without setgid
// for a group that is not the caller's.
func checkMode(fd int, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&0o7777 != mode {
		return fmt.Errorf("%w: got %#o, want %#o", errNotKept, st.Mode&0o7777, mode)
	}
	return nil
}

// modeBits returns a mode as the kernel has it.
func modeBits(mode fs.FileMode) uint32 {
	bits := uint32(mode) & 0o7777
	for _, special := range []struct {
		mode fs.FileMode
		bit  uint32
	}{{fs.ModeSetuid, unix.S_ISUID}, {fs.ModeSetgid, unix.S_ISGID}, {fs.ModeSticky, unix.S_ISVTX}} {
		if mode&special.mode != 0 {
			bits |= special.bit
		}
	}
	return bits
}

// openDir returns an O_PATH descriptor of the directory that holds name, to which no
// symbolic link leads.
func openDir(name string) (int, error) {
	fd, err := safepath.Open(context.Background(), unix.AT_FDCWD, path.Dir(name), unix.O_DIRECTORY)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// makeDir creates the volume's directory, and the directories that lead to it. It returns the
// first directory that it has created. It keeps the directory that holds the volume's open for
// setMark, until closeParent is called.
func (v *podDir) makeDir() (made string, err error) {
	if v.parent, err = openDir(v.dir); err == nil && unix.Mkdirat(v.parent, path.Base(v.dir), newMode) == nil {
		return v.dir, nil
	}
	return safepath.MkdirAll(context.Background(), v.mounts.rootOf(v.dir), v.dir, newMode)
}

func (v *podDir) closeParent() {
	if v.parent >= 0 {
		_ = unix.Close(v.parent)
		v.parent = -1
	}
}

// readNote returns the text of a regular file.
func readNote(name string, most int64) ([]byte, error) {
	dir, err := openDir(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := openIn(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	switch err := unix.Fstat(fd, &st); {
	case err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.Join(fmt.Errorf("%w: %s is no file", errUnsound, name), err)
	case st.Size > most:
		return nil, fmt.Errorf("%w: %s is too long", errUnsound, name)
	}
	text := make([]byte, st.Size)
	n, err := beneath.RetryInterrupted(func() (int, error) { return unix.Read(fd, text) })
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return text[:n], nil
}

// openIn opens a file in the directory that holds a note. A symbolic link is refused.
func openIn(dir int, name string, flags int) (int, error) {
	fd, err := unix.Openat(dir, path.Base(name), flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// writeNote writes a file under another name, and renames it.
func writeNote(n writtenNote) error {
	dir, err := openDir(n.name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := openIn(dir, n.temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return err
	}
	if err := errors.Join(writeAll(fd, n.text), unix.Close(fd)); err != nil {
		return &fs.PathError{Op: "write", Path: n.temporary, Err: err}
	}
	if err := unix.Renameat2(dir, path.Base(n.temporary), dir, path.Base(n.name), 0); err != nil {
		return &os.LinkError{Op: "rename", Old: n.temporary, New: n.name, Err: err}
	}
	return nil
}

func writeAll(fd int, text []byte) error {
	for len(text) > 0 {
		n, err := beneath.RetryInterrupted(func() (int, error) { return unix.Write(fd, text) })
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// markPrefix begins the names of the extended attributes that hold notes. A volume's is in
// the directory that holds the volume's, which the pod cannot reach, and does not depend
// on the volume's mount.
const markPrefix = "trusted.volumekit.ready."

// withoutMarks makes tests use files.
var withoutMarks bool

// longestMark leaves room for several volumes: ext4 stores 4 KiB of attributes.
const longestMark = 1024

// readMark returns the note about a volume from the directory that holds the volume's. The
// error wraps fs.ErrNotExist if there is none.
func readMark(dir string) ([]byte, error) {
	if withoutMarks {
		return nil, fs.ErrNotExist
	}
	text := make([]byte, longestMark+1)
	n, err := unix.Lgetxattr(path.Dir(dir), markPrefix+path.Base(dir), text)
	switch {
	case err == nil:
		return text[:n], nil
	case isWithoutMarks(err):
		return nil, fs.ErrNotExist
	}
	return nil, &fs.PathError{Op: "getxattr", Path: path.Dir(dir), Err: err}
}

// setMark notes the text about a volume, and reports whether the file system and the
// privileges of this process allow that. The attribute changes by one system call, whole.
// parent is a descriptor of the directory that holds the volume's, or -1.
func setMark(parent int, dir string, text []byte) bool {
	if withoutMarks || len(text) > longestMark {
		return false
	}
	if parent < 0 {
		opened, err := openDir(dir)
		if err != nil {
			return false
		}
		defer func() { _ = unix.Close(opened) }()
		parent = opened
	}
	return unix.Setxattr(procPath(parent), markPrefix+path.Base(dir), text, 0) == nil
}

// removeMark removes what setMark noted.
func removeMark(dir string) error {
	parent, err := openDir(dir)
	if isWithoutMarks(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	return removeMarkIn(parent, dir)
}

func removeMarkIn(parent int, dir string) error {
	if withoutMarks {
		return nil
	}
	err := unix.Removexattr(procPath(parent), markPrefix+path.Base(dir))
	if err == nil || isWithoutMarks(err) && !errors.Is(err, unix.ENOENT) { // ENOENT: without /proc
		return nil
	}
	return &fs.PathError{Op: "removexattr", Path: dir, Err: err}
}

// isWithoutMarks reports whether an error says that there is no such attribute: the process
// may lack CAP_SYS_ADMIN in the initial user namespace, and the file system all attributes.
func isWithoutMarks(err error) bool {
	for _, without := range []error{unix.ENODATA, unix.EOPNOTSUPP, unix.EPERM, unix.ERANGE, unix.ENOENT, unix.ENOTDIR} {
		if errors.Is(err, without) {
			return true
		}
	}
	return false
}

// procPath leads to the inode of a descriptor, also of an O_PATH one.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// removeNotes removes files from the directory of a note, or empty directories that have
// their names, in order. Missing ones are no error.
func removeNotes(dir string, names ...string) error {
	at, err := openDir(path.Join(dir, names[0]))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	for _, name := range names {
		err := unix.Unlinkat(at, name, 0)
		if errors.Is(err, unix.EISDIR) {
			err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "unlink", Path: path.Join(dir, name), Err: err}
		}
	}
	return nil
}

// pinned is a volume's directory that is no mount point.
type pinned struct {
	parent int // a descriptor
	base   string
	mount  uint64 // that the directory is in
}

// pin opens the directory's parent. The directory must be one, and no mount point.
func (v *podDir) pin() (*pinned, error) {
	parent, err := openDir(v.dir)
	if err != nil {
		return nil, err
	}
	p := &pinned{parent: parent, base: path.Base(v.dir)}
	if p.mount, err = beneath.MountOf(parent); err == nil {
		err = p.check()
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("%s: %w", v.dir, err)
	}
	return p, nil
}

// check verifies that the name is that of a directory, and of no mount point.
func (p *pinned) check() error {
	var x unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_MNT_ID
	err := unix.Statx(p.parent, p.base, beneath.Quiet, mask, &x)
	switch {
	case err != nil:
		return err
	case x.Mask&unix.STATX_MNT_ID == 0: // before Linux 5.8
		return p.open()
	case x.Mnt_id != p.mount:
		return errOnTop
	case x.Mode&unix.S_IFMT != unix.S_IFDIR:
		return unix.ENOTDIR
	}
	return nil
}

// open is check by opening the directory.
func (p *pinned) open() error {
	fd, err := beneath.Open(p.parent, p.base, beneath.ToLook|unix.O_DIRECTORY, p.mount)
	if errors.Is(err, unix.EXDEV) {
		return errOnTop
	}
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// rmdir removes the directory if it is empty and nothing is mounted on it.
func (p *pinned) rmdir() error { return unix.Unlinkat(p.parent, p.base, unix.AT_REMOVEDIR) }

// removeMark is the function removeMark for the pinned directory.
func (p *pinned) removeMark(dir string) error { return removeMarkIn(p.parent, dir) }

func (p *pinned) close() { _ = unix.Close(p.parent) }
