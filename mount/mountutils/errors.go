package mountutils

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

// queryError gives an error the form in which os.IsNotExist, os.IsPermission and
// IsCorruptedMnt recognise it: they look at the number right in an *os.PathError.
func queryError(op, path string, err error) error {
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.As(err, &errno):
		return &os.PathError{Op: op, Path: path, Err: errno}
	case errors.Is(err, fs.ErrNotExist):
		return &os.PathError{Op: op, Path: path, Err: fs.ErrNotExist}
	}
	return err
}

// changeError gives an error the form in which IsCorruptedMnt recognises it.
func changeError(op, path string, err error) error {
	var own *mount.Error
	switch {
	case err == nil:
		return nil
	case mount.IsCorrupted(err):
		return &os.PathError{Op: op, Path: path, Err: err}
	case errors.As(err, &own), errors.As(err, new(*mount.InputError)):
		return err
	}
	return &mount.Error{Op: op, Target: path, Err: err}
}
