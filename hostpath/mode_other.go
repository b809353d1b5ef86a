//go:build !linux

package hostpath

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// open is for dry runs: it inspects the file and opens nothing.
func open(name string) (found, error) {
	info, err := os.Lstat(filepath.FromSlash(name))
	if err != nil {
		return found{path: name}, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return found{path: name}, &os.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	return found{path: name, mode: info.Mode().Type()}, nil
}
