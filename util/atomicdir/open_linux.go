package atomicdir

import (
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

const (
	toList = beneath.ToList
	toLook = beneath.ToLook
)

// openRoot opens an absolute path that has no symbolic link, and says which mount it
// is in.
func openRoot(name string) (fd int, mount uint64, err error) {
	at, err := beneath.OpenPath(name)
	if err != nil {
		return -1, 0, err
	}
	defer func() { _ = unix.Close(at) }()
	if mount, err = beneath.MountOf(at); err != nil {
		return -1, 0, err
	}
	fd, err = beneath.OpenSelf(at, toList)
	return fd, mount, err
}

// enter opens what is at a relative path below an open directory, in the same mount.
// No symbolic link is followed, neither on the way nor at the end. Flags are toList or
// toLook.
func (w *writer) enter(dir int, name string, flags int) (int, error) {
	if name == "" {
		name = "."
	}
	return beneath.Open(dir, name, flags, w.mount)
}

// linkAt returns where a symbolic link leads, and "" for what is none.
func linkAt(dir int, name string) string {
	buf := make([]byte, maxName)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}
