package hostfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// in runs work on the directory of a path, by descriptor, and names operation and path in its error.
func (f Files) in(op, name string, work func(dir int, base string) error) error {
	parent, base, err := f.check(op, name)
	if err != nil {
		return err
	}
	dir, err := safepath.Open(context.Background(), unix.AT_FDCWD, parent, unix.O_DIRECTORY)
	if err == nil {
		defer func() { _ = unix.Close(dir) }()
		err = work(dir, base)
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// open opens an entry of a directory, and follows no symbolic link.
func open(dir int, base string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(dir, base, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), base), nil
	}
}

// modeOf returns the type of an entry, which may be a symbolic link.
func modeOf(dir int, base string) (uint32, error) {
	var stat unix.Stat_t
	err := unix.Fstatat(dir, base, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return stat.Mode & unix.S_IFMT, err
}

// Read returns the first bytes of a regular file, at most limit.
func (f Files) Read(name string, limit int64) (text []byte, err error) {
	err = f.in("read", name, func(dir int, base string) error {
		if mode, err := modeOf(dir, base); err != nil {
			return err
		} else if mode != unix.S_IFREG {
			return ErrNotRegular
		}
		file, err := open(dir, base, unix.O_RDONLY)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		text, err = io.ReadAll(io.LimitReader(file, limit))
		return err
	})
	return text, err
}

// Write replaces a file. Its directory must exist.
func (f Files) Write(name string, text []byte, durability Durability) error {
	return f.in("write", name, func(dir int, base string) error {
		temporary := base + TemporarySuffix
		err := f.writeNew(dir, temporary, text)
		if err == nil {
			err = unix.Renameat(dir, temporary, dir, base)
		}
		if err != nil {
			return errors.Join(err, ignoreMissing(unix.Unlinkat(dir, temporary, 0)))
		}
		if durability != Durable {
			return nil
		}
		return f.syncDir(dir)
	})
}

// SyncMade makes the names of new directories durable, from top down to dir.
func (f Files) SyncMade(top, dir string) error {
	for {
		if err := f.in("sync", dir, func(parent int, _ string) error { return f.syncDir(parent) }); err != nil || dir == top {
			return err
		}
		dir = path.Dir(dir)
	}
}

// syncDir makes the names in a directory durable.
func (f Files) syncDir(dir int) error {
	file, err := open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return errors.Join(f.syncFile(file), file.Close())
}

func (f Files) syncFile(file *os.File) error {
	if f.sync != nil {
		return f.sync(file)
	}
	return file.Sync()
}

// writeNew creates a file with its content on disk. The file of an interrupted write is removed first.
func (f Files) writeNew(dir int, base string, text []byte) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	file, err := open(dir, base, flags)
	if errors.Is(err, fs.ErrExist) {
		if err := unix.Unlinkat(dir, base, 0); err != nil {
			return err
		}
		file, err = open(dir, base, flags)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = f.syncFile(file)
	}
	return errors.Join(err, file.Close())
}

// RemoveOne removes a file. A missing one is no error. Another kind of entry stays, with an error.
func (f Files) RemoveOne(name string) error {
	return ignoreMissing(f.in("remove", name, func(dir int, base string) error {
		err := unix.Unlinkat(dir, base, 0)
		if errors.Is(err, unix.EISDIR) {
			return ErrNotRegular
		}
		return err
	}))
}

// ReadLink returns the target of a symbolic link. The error wraps fs.ErrNotExist for a missing one.
func (f Files) ReadLink(name string) (to string, err error) {
	err = f.in("readlink", name, func(dir int, base string) error {
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, base, target)
		if errors.Is(err, unix.EINVAL) {
			return ErrNotLink
		}
		if err == nil {
			to = string(target[:n])
		}
		return err
	})
	return to, err
}

// MakeLink creates a symbolic link that does not exist. Its directory must exist.
func (f Files) MakeLink(to, name string) error {
	return f.in("symlink", name, func(dir int, base string) error { return unix.Symlinkat(to, dir, base) })
}

// RemoveLink removes a symbolic link. A missing one is no error. Another kind of entry stays, with an
// error that wraps [ErrNotLink].
func (f Files) RemoveLink(name string) error {
	return ignoreMissing(f.in("remove", name, func(dir int, base string) error {
		mode, err := modeOf(dir, base)
		switch {
		case err != nil:
			return err
		case mode != unix.S_IFLNK:
			return ErrNotLink
		}
		return unix.Unlinkat(dir, base, 0)
	}))
}
