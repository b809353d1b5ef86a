package mountutils

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/mount"
)

// queryError converts an error for os.IsNotExist, os.IsPermission and IsCorruptedMnt, which
// inspect the number directly inside an *os.PathError.
func queryError(op, path string, err error) error {
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.As(err, &errno):
		return &os.PathError{Op: op, Path: brief.Text(path), Err: errno}
	case errors.Is(err, fs.ErrNotExist):
		return &os.PathError{Op: op, Path: brief.Text(path), Err: fs.ErrNotExist}
	}
	return err
}

// changeError converts an error for IsCorruptedMnt.
func changeError(op, path string, err error) error {
	var own *mount.Error
	switch {
	case err == nil:
		return nil
	case mount.IsCorrupted(err):
		return &os.PathError{Op: op, Path: brief.Text(path), Err: err}
	case errors.As(err, &own), errors.As(err, new(*mount.InputError)):
		return err
	}
	return &mount.Error{Op: op, Target: path, Err: err}
}
