package loop

import (
	"errors"
	"fmt"
	"os"

	"github.com/volumekit/volumekit/internal/input"
)

var (
	// ErrNotAttached is wrapped by the error of [GetLoopDevice] for a file without a
	// loop device.
	ErrNotAttached = errors.New("no loop device is attached")

	// ErrReplaced is wrapped by the error of [Detach] and [Resize] for a device that has
	// been detached, if another one is attached under its path.
	ErrReplaced = errors.New("another file is attached to the device")
)

// Config configures [Attach] and [AttachFileDevice].
type Config struct {
	// File is the backing file: a regular file or a block device. The caller closes it.
	// It is empty for [AttachFileDevice], which opens the file.
	File *os.File
	// Name is stored by the kernel: at most 63 bytes, no NUL. It need not be a path.
	Name string
	// ReadOnly makes a device that cannot be written to. It is required if File is
	// open for reading only.
	ReadOnly bool
}

const mostName = 63

func (c Config) check() error {
	if c.File == nil {
		return errors.New("loop: Config.File is missing")
	}
	return checkName(c.Name)
}

func checkName(name string) error {
	if len(name) > mostName {
		return fmt.Errorf("loop: name %s: must be at most %d bytes", input.Quote(name), mostName)
	}
	for _, b := range []byte(name) {
		if b == 0 {
			return fmt.Errorf("loop: name %s: must not contain NUL", input.Quote(name))
		}
	}
	return nil
}

// A Device is an attached loop device.
type Device struct {
	Path     string // "/dev/loop0"
	Backing  string // the current path of the backing file
	Deleted  bool   // the backing file has been removed; Backing is its last path
	Name     string // of the Config
	ReadOnly bool
	// BackingDevice is the device number of the backing block device, as in stat(2);
	// zero for a file.
	BackingDevice uint64
	// Ending: the device was detached while in use, and ends when its last user closes it.
	Ending bool
	// Seq is the kernel's sequence number of this attachment, which is not reused. Zero
	// before Linux 5.15.
	Seq uint64

	file fileID // of the backing file
}

// A fileID is the identity of a file on this machine. The zero value means none.
type fileID struct{ dev, inode uint64 }
