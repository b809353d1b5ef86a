package atomicdir

import (
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

const (
	toList = beneath.ToList
	toLook = beneath.ToLook
)

// open opens the directory without symbolic links.
func (w *writer) open() (err error) {
	if w.root, err = beneath.OpenDirectory(w.dir); err != nil {
		return err
	}
	var x unix.Statx_t
	if err = unix.Statx(w.root, "", beneath.Quiet|unix.AT_EMPTY_PATH, stampMask, &x); err == nil {
		w.rootStamp = stampOfStatx(&x)
		w.mount, err = beneath.MountIn(w.root, &x)
	}
	if err != nil {
		_ = unix.Close(w.root)
	}
	return err
}

// enter opens the entry at a relative path below an open directory, in the same mount. It
// follows no symbolic link, neither on the way nor at the end. Flags are toList or toLook.
func (w *writer) enter(dir int, name string, flags int) (int, error) {
	if name == "" {
		name = "."
	}
	return beneath.Open(dir, name, flags, w.mount)
}

// enterIn opens a directory of an open set for listing. The top of the set is not opened
// again. The caller calls done.
func (w *writer) enterIn(set int, name string) (fd int, done func(), err error) {
	if name == "" {
		return set, func() {}, nil
	}
	fd, err = w.enter(set, name, toList)
	return fd, func() { _ = unix.Close(fd) }, err
}

// linkAt returns the target of a symbolic link, which it may shorten if it is longer than the
// name of a set, or "" for other entries.
func linkAt(dir int, name string) string {
	var buf [64]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// leadsTo reports whether an entry is a symbolic link with the target text.
func leadsTo(dir int, name, text string) bool {
	const usual = 256
	var short [usual]byte
	buf := short[:]
	if len(text) >= usual {
		buf = make([]byte, len(text)+1)
	}
	n, err := unix.Readlinkat(dir, name, buf)
	return err == nil && string(buf[:n]) == text
}
