package hostfile

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

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

// open opens an entry of a directory, and follows no symbolic link. The descriptor is no os.File, which
// makes further system calls to use the poller.
func open(dir int, base string, flags int) (fd int, err error) {
	err = retried(func() error {
		fd, err = unix.Openat(dir, base, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		return err
	})
	return fd, err
}

// retried makes a system call again if a signal has interrupted it.
func retried(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// statOf returns the attributes of an entry, which may be a symbolic link.
func statOf(dir int, base string) (stat unix.Stat_t, err error) {
	err = unix.Fstatat(dir, base, &stat, unix.AT_SYMLINK_NOFOLLOW)
	stat.Mode &= unix.S_IFMT
	return stat, err
}

// openRegular opens a regular file, and returns its size.
func openRegular(dir int, base string, flags int) (fd int, size int64, err error) {
	stat, err := statOf(dir, base)
	if err != nil {
		return -1, 0, err
	}
	if stat.Mode != unix.S_IFREG {
		return -1, 0, ErrNotRegular
	}
	fd, err = open(dir, base, flags)
	return fd, stat.Size, err
}

// Read returns the first bytes of a regular file, at most limit.
func (f Files) Read(name string, limit int64) (text []byte, err error) {
	err = f.in("read", name, func(dir int, base string) error {
		fd, size, err := openRegular(dir, base, unix.O_RDONLY)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		text, err = readUpTo(fd, min(size, limit))
		return err
	})
	return text, err
}

// readUpTo returns the first bytes of a file.
func readUpTo(fd int, size int64) ([]byte, error) {
	text := make([]byte, size)
	n := 0
	for n < len(text) {
		got := 0
		err := retried(func() (err error) { got, err = unix.Pread(fd, text[n:], int64(n)); return err })
		if err != nil {
			return nil, err
		}
		if got == 0 {
			break
		}
		n += got
	}
	return text[:n], nil
}

// Write replaces a file: all readers find the new content. After a loss of power they find the old content
// or the new one, whole. Its directory must exist.
func (f Files) Write(name string, text []byte) error {
	return f.in("write", name, func(dir int, base string) error {
		return f.replace(dir, base, text, func() error { return nil })
	})
}

// WriteDurably is Write for a file that survives a loss of power, with its name and those of its directories
// from top down. The names of directories are on disk before that of the file: a file that exists has
// durable directories also after an interrupted call.
func (f Files) WriteDurably(name string, text []byte, top string) error {
	return f.in("write", name, func(dir int, base string) error {
		if !f.isDirOf(top, name) {
			return errNotBelow
		}
		// The content is synced before the directories: a file system with a journal then writes both at once.
		err := f.replace(dir, base, text, func() error { return f.syncNames(dir, strings.Count(name[len(top):], "/")) })
		if err != nil {
			return err
		}
		return f.syncDir(dir, ".")
	})
}

// SyncName makes the name of a file durable, of which an earlier [Files.WriteDurably] may have been interrupted
// before its end. The content and the names of the directories are durable as soon as the file exists.
func (f Files) SyncName(name string) error {
	return f.in("sync", name, func(dir int, _ string) error { return f.syncDir(dir, ".") })
}

// replace replaces a file, and calls prepare between the write of the content and that of the name.
func (f Files) replace(dir int, base string, text []byte, prepare func() error) error {
	temporary := base + TemporarySuffix
	err := f.writeNew(dir, temporary, text)
	if err == nil {
		err = prepare()
	}
	if err == nil {
		err = unix.Renameat(dir, temporary, dir, base)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(unix.Unlinkat(dir, temporary, 0)))
	}
	return nil
}

// syncNames makes the name of a directory durable, and those of its parents: levels in all.
func (f Files) syncNames(dir, levels int) error {
	above := ""
	for range levels {
		above += "../"
		if err := f.syncDir(dir, above); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes the names in a directory durable.
func (f Files) syncDir(dir int, at string) error {
	fd, err := open(dir, at, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return errors.Join(f.syncFile(fd), unix.Close(fd))
}

func (f Files) syncFile(fd int) error {
	if f.sync != nil {
		return f.sync(fd)
	}
	return retried(func() error { return unix.Fsync(fd) })
}

// writeNew creates a file with its content on disk. The file of an interrupted write is removed first.
func (f Files) writeNew(dir int, base string, text []byte) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	fd, err := open(dir, base, flags)
	if errors.Is(err, fs.ErrExist) {
		if err := unix.Unlinkat(dir, base, 0); err != nil {
			return err
		}
		fd, err = open(dir, base, flags)
	}
	if err != nil {
		return err
	}
	err = writeAll(fd, text, 0)
	if err == nil {
		err = f.syncFile(fd)
	}
	return errors.Join(err, unix.Close(fd))
}

func writeAll(fd int, text []byte, offset int64) error {
	for len(text) > 0 {
		n := 0
		err := retried(func() (err error) { n, err = unix.Pwrite(fd, text, offset); return err })
		if err != nil {
			return err
		}
		text, offset = text[n:], offset+int64(n)
	}
	return nil
}

// An Open is an open file, of which one byte may be changed in place.
type Open struct {
	name string
	fd   int
	text []byte
}

// OpenFile opens a regular file, and reads its first bytes, at most limit.
func (f Files) OpenFile(name string, limit int64) (o *Open, err error) {
	err = f.in("open", name, func(dir int, base string) error {
		fd, size, err := openRegular(dir, base, unix.O_RDWR)
		if err != nil {
			return err
		}
		text, err := readUpTo(fd, min(size, limit))
		if err != nil {
			_ = unix.Close(fd)
			return err
		}
		o = &Open{name: name, fd: fd, text: text}
		return nil
	})
	return o, err
}

// Text returns the content of the file when it was opened.
func (o *Open) Text() []byte { return o.text }

// Overwrite changes the only byte in which the content differs from text, and reports whether it has: a file
// whose content has another length stays, as does one that differs in more. It syncs nothing: after a loss of
// power the file has the old content or the new one, since no other byte and no name changes.
func (o *Open) Overwrite(text []byte) (done bool, err error) {
	at, ok := differenceOf(o.text, text)
	if !ok {
		return false, nil
	}
	if err := writeAll(o.fd, text[at:at+1], int64(at)); err != nil {
		return false, &fs.PathError{Op: "write", Path: o.name, Err: err}
	}
	o.text = text
	return true, nil
}

// Close closes the file. A repeated Close has no effect.
func (o *Open) Close() error {
	fd := o.fd
	o.fd = -1
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// Overwrite is [Open.Overwrite] for a file with the content old. A missing file and one with another content
// stay.
func (f Files) Overwrite(name string, old, text []byte) (done bool, err error) {
	if _, ok := differenceOf(old, text); !ok {
		return false, nil
	}
	o, err := f.OpenFile(name, int64(len(old))+1)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = o.Close() }()
	if !bytes.Equal(o.text, old) {
		return false, nil
	}
	return o.Overwrite(text)
}

// differenceOf returns the index of the only byte in which two texts differ.
func differenceOf(old, text []byte) (at int, ok bool) {
	if len(old) != len(text) {
		return 0, false
	}
	for at < len(old) && old[at] == text[at] {
		at++
	}
	return at, at < len(old) && bytes.Equal(old[at+1:], text[at+1:])
}

// Remove removes a file, and its temporary one. Missing ones are no error. Another kind of entry stays,
// with an error.
func (f Files) Remove(name string) error {
	return ignoreMissing(f.in("remove", name, func(dir int, base string) error {
		return errors.Join(ignoreMissing(unlink(dir, base)), ignoreMissing(unlink(dir, base+TemporarySuffix)))
	}))
}

// RemoveWithDir removes a file as Remove does, an empty directory beside it, and the directory of both, which
// is not the root. Missing ones are no error. Any entry that stays is an error, and so does the directory of
// both then; if it is the one beside the file, nothing is removed.
func (f Files) RemoveWithDir(name, beside string) error {
	return ignoreMissing(f.in("remove", name, func(dir int, base string) error {
		at := path.Dir(name)
		if at == f.Root || strings.ContainsRune(beside, '/') || beside == ".." {
			return errNotBelow
		}
		if err := ignoreMissing(unix.Unlinkat(dir, beside, unix.AT_REMOVEDIR)); err != nil {
			return &fs.PathError{Op: "rmdir", Path: path.Join(at, beside), Err: err}
		}
		err := errors.Join(ignoreMissing(unlink(dir, base)), ignoreMissing(unlink(dir, base+TemporarySuffix)))
		if err != nil {
			return err
		}
		parent, err := open(dir, "..", unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(parent) }()
		if err := ignoreMissing(unix.Unlinkat(parent, path.Base(at), unix.AT_REMOVEDIR)); err != nil {
			return &fs.PathError{Op: "rmdir", Path: at, Err: err}
		}
		return nil
	}))
}

// RemoveOne removes a file. A missing one is no error. Another kind of entry stays, with an error.
func (f Files) RemoveOne(name string) error { return ignoreMissing(f.in("remove", name, unlink)) }

func unlink(dir int, base string) error {
	err := unix.Unlinkat(dir, base, 0)
	if errors.Is(err, unix.EISDIR) {
		return ErrNotRegular
	}
	return err
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
		stat, err := statOf(dir, base)
		switch {
		case err != nil:
			return err
		case stat.Mode != unix.S_IFLNK:
			return ErrNotLink
		}
		return unix.Unlinkat(dir, base, 0)
	}))
}
