package mount

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

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
// hidden under it, and the path's place in it as the kernel spells it. It opens
// the directory above alone: a descriptor of the mount would keep it busy.
func mountRefs(p string) ([]string, error) {
	p = path.Clean(p)
	var x unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, p, quiet, unix.STATX_MNT_ID, &x); err != nil {
		return nil, err
	}
	where, err := spelledOut(p)
	if err != nil {
		return nil, err
	}
	table, err := readTable()
	if err != nil {
		return nil, err
	}
	id := x.Mnt_id
	if x.Mask&unix.STATX_MNT_ID == 0 { // before Linux 5.8
		if id, err = mountIDAt(p); err != nil {
			return nil, err
		}
	}
	in := slices.IndexFunc(table, func(i Info) bool { return uint64(i.ID) == id })
	if in < 0 {
		return nil, fmt.Errorf("mount %d is not in the table: %w", id, fs.ErrNotExist)
	}
	return newVisibility(table).refs(table[in], where), nil
}

// spelledOut returns the path without the symbolic links on its way.
func spelledOut(p string) (string, error) {
	if p == "/" {
		return p, nil
	}
	dir, base := path.Split(p)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer closeFD(fd)
	where, err := os.Readlink(procFD(fd))
	if err != nil {
		return "", err
	}
	if !path.IsAbs(where) {
		return "", fmt.Errorf("%q is out of sight: %w", where, fs.ErrNotExist)
	}
	return path.Join(where, base), nil
}

func mountIDAt(p string) (uint64, error) {
	fd, err := unix.Open(p, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer closeFD(fd)
	id, err := identify(fd)
	return id.mount, err
}
