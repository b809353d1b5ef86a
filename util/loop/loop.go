package loop

import (
	"fmt"
	"os"
)

// Config is what [Attach] attaches.
type Config struct {
	// File is what is behind the device: a regular file or a block device. It stays
	// the caller's to close.
	File *os.File
	// Name is kept by the kernel: at most 63 bytes, no NUL. It is no path to anything.
	Name string
	// ReadOnly makes a device that cannot be written to. It need be set if File is
	// open for reading only.
	ReadOnly bool
}

const mostName = 63

func (c Config) check() error {
	if c.File == nil {
		return fmt.Errorf("loop: Config.File is missing")
	}
	return checkName(c.Name)
}

func checkName(name string) error {
	if len(name) > mostName {
		return fmt.Errorf("loop: the name %.80q is longer than %d bytes", name, mostName)
	}
	for _, b := range []byte(name) {
		if b == 0 {
			return fmt.Errorf("loop: the name %q holds a NUL", name)
		}
	}
	return nil
}

// A Device is a loop device that is attached.
type Device struct {
	Path     string // "/dev/loop0"
	Backing  string // the path of what is behind it, as the kernel has it now
	Name     string // as Config has it
	ReadOnly bool
	// BackingDevice is the number of the block device behind it, as stat(2) has it;
	// zero if a file is.
	BackingDevice uint64
	// Ending: it has been detached while somebody had it open, and is gone when the
	// last of them closes it. Its number is anybody's then.
	Ending bool
}
