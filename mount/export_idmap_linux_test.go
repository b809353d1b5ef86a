package mount

import (
	"context"

	"golang.org/x/sys/unix"
)

// HasMappedIDs reports whether the kernel tells how IDs are mapped.
func HasMappedIDs(path string) bool {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	unique, err := uniqueMount(fd)
	if err != nil {
		return false
	}
	l := newLook(context.Background())
	defer l.done()
	f, err := l.ask(unique, askUIDs|askGIDs)
	return err == nil && f.has(askUIDs|askGIDs)
}
