package mount

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// readTable reads the whole table in few, large reads: the kernel gives whole
// lines and goes on from the last mount that it gave.
func readTable() (Table, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, 0, 1<<16)
	for {
		n, err := f.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			return parseMountinfo(text)
		}
		if err != nil {
			return nil, err
		}
		if cap(text)-len(text) < 1<<14 {
			text = slices.Grow(text, cap(text))
		}
	}
}

// mountRefs finds the mount that path is in by its number, since another may be
// hidden under it, and the path's place in it as the kernel spells it.
func mountRefs(path string) ([]string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	id, err := identify(fd)
	if err != nil {
		return nil, err
	}
	where, err := os.Readlink(procFD(fd))
	if err != nil {
		return nil, err
	}
	table, err := readTable()
	if err != nil {
		return nil, err
	}
	in := slices.IndexFunc(table, func(i Info) bool { return uint64(i.ID) == id.mount })
	if in < 0 {
		return nil, fmt.Errorf("mount %d is not in the table: %w", id.mount, fs.ErrNotExist)
	}
	if !strings.HasPrefix(where, "/") {
		return nil, fmt.Errorf("%q is out of sight: %w", where, fs.ErrNotExist)
	}
	return newVisibility(table).refs(table[in], where), nil
}
