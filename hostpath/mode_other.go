//go:build !linux

package hostpath

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// open is for dry runs: it inspects the file and opens nothing.
func open(name string) (*os.File, fs.FileMode, error) {
	info, err := os.Lstat(filepath.FromSlash(name))
	if err != nil {
		return nil, 0, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, 0, &os.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	return nil, info.Mode().Type(), nil
}
