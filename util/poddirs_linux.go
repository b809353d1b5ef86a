package util

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

var errNotKept = errors.New("the file system did not keep the mode")

// own gives the directory its owner and mode, by descriptor.
func own(dir string, want PodDir) error {
	at, err := safepath.Open(unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if want.Group != nil {
		if err := unix.Fchown(fd, -1, int(*want.Group)); err != nil {
			return err
		}
	}
	return setMode(fd, modeBits(want.Mode))
}

func setMode(fd int, mode uint32) error {
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&0o7777 != mode { // such as setgid, for a group that is not the caller's
		return fmt.Errorf("%w: %#o, not %#o", errNotKept, st.Mode&0o7777, mode)
	}
	return nil
}

func modeBits(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
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

// openNote opens a file in a directory to which no symbolic link leads, and is none.
func openNote(name string, flags int) (*os.File, error) {
	dir, base, err := safepath.OpenParent(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := unix.Openat(dir, base, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func readNote(name string, most int64) ([]byte, error) {
	file, err := openNote(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%w: %s is no file", errUnsound, name), err)
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%w: %s is too long", errUnsound, name)
	}
	return text, err
}

// writeNote writes a file under another name, and gives it its own when it is on disk.
func writeNote(temporary, name string, text []byte) error {
	file, err := openNote(temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return renameNote(temporary, name)
}

// renameNote: both names are in one directory.
func renameNote(from, to string) error {
	dir, base, err := safepath.OpenParent(from)
	if err == nil {
		err = unix.Renameat2(dir, base, dir, path.Base(to), 0)
		_ = unix.Close(dir)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// removeNote removes a file, or an empty directory: whoever put that there, it says
// nothing.
func removeNote(name string) error {
	dir, base, err := safepath.OpenParent(name)
	if err == nil {
		if err = unix.Unlinkat(dir, base, 0); errors.Is(err, unix.EISDIR) {
			err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
		_ = unix.Close(dir)
	}
	if err != nil {
		return &fs.PathError{Op: "unlink", Path: name, Err: err}
	}
	return nil
}
