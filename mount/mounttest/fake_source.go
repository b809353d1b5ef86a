package mounttest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
)

// source returns the spot of the source of a bind mount.
func (f *Fake) source(req mount.Request) (spot, error) {
	if req.SourceFile == nil {
		return f.lookupNoLink(path.Clean(req.Source))
	}
	info, err := req.SourceFile.Stat()
	if err != nil {
		return spot{}, withoutPath(err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return spot{}, errLink
	}
	at, err := f.lookupNoLink(tablepath.Of(filepath.Clean(currentPath(req.SourceFile))))
	if err != nil {
		return spot{}, err
	}
	// A path inside a mount of the Fake has another real file than the open one.
	real, err := f.realRoot(at)
	if err == nil && (real == nil || !f.kernel.files.SameFile(info, real)) {
		err = syscall.ESTALE
	}
	return at, err
}

// currentPath returns the current path of an open file, if the system reports it.
func currentPath(file *os.File) string {
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
