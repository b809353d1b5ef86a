package contract

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

// watchNames runs work, and returns the entries that work has made or renamed below a directory and that are gone
// afterwards, by their paths in it. New directories are not watched.
func (c *contract) watchNames(dir string, work func()) map[string]fs.FileMode {
	c.Helper()
	gone := map[string]fs.FileMode{}
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		c.Logf("entries that exist for an instant are not seen: inotify: %v", err)
		work()
		return gone
	}
	defer func() { _ = syscall.Close(fd) }()
	dirs := map[int32]string{}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		watch, err := syscall.InotifyAddWatch(fd, path, syscall.IN_CREATE|syscall.IN_MOVED_FROM|syscall.IN_ONLYDIR)
		dirs[int32(watch)] = path
		return err
	})
	if err != nil {
		c.Logf("some entries that exist for an instant are not seen: inotify: %v", err)
	}
	work()
	buffer := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(fd, buffer)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if n <= 0 || err != nil { // EAGAIN: no more events
			return gone
		}
		for event := buffer[:n]; len(event) >= syscall.SizeofInotifyEvent; {
			header := (*syscall.InotifyEvent)(unsafe.Pointer(&event[0]))
			end := syscall.SizeofInotifyEvent + int(header.Len)
			if header.Mask&syscall.IN_Q_OVERFLOW != 0 {
				c.Logf("some entries that exist for an instant are not seen: too many events")
			}
			name, _, _ := bytes.Cut(event[syscall.SizeofInotifyEvent:end], []byte{0})
			event = event[end:]
			path := filepath.Join(dirs[header.Wd], string(name))
			if _, err := os.Lstat(path); len(name) == 0 || err == nil {
				continue
			}
			kind := fs.FileMode(0)
			if header.Mask&syscall.IN_ISDIR != 0 {
				kind = fs.ModeDir
			}
			gone[path[len(dir)+1:]] = kind
		}
	}
}
