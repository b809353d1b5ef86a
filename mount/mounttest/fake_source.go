package mounttest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

// source returns the spot of what a bind mount is from.
func (f *Fake) source(req mount.Request) (spot, error) {
	if req.SourceFile == nil {
		return f.lookupNoLink(path.Clean(req.Source))
	}
	info, err := req.SourceFile.Stat()
	if err != nil {
		return spot{}, cause(err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return spot{}, errLink
	}
	at, err := f.lookupNoLink(slashed(filepath.Clean(nameOf(req.SourceFile))))
	if err != nil {
		return spot{}, err
	}
	// What a Fake has mounted there is not what is really there, and open.
	real, err := f.realRoot(at)
	if err == nil && (real == nil || !f.kernel.files.SameFile(info, real)) {
		err = syscall.ESTALE
	}
	return at, err
}

// nameOf returns where an open file is now, as far as the system says.
func nameOf(file *os.File) string {
	conn, err := file.SyscallConn()
	if err != nil {
		return file.Name()
	}
	name := file.Name()
	_ = conn.Control(func(fd uintptr) {
		if now, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil {
			name = now
		}
	})
	return name
}
