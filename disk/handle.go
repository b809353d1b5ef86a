package disk

import (
	"context"
	"io"
	"os"
)

// Devices opens block devices: those of the kernel, or disks in memory (package disktest).
// The methods may block for as long as the device does.
type Devices interface {
	// Open opens the device at a path for reading. The path has no symbolic links.
	Open(path string) (Handle, error)
	// Identify returns which device is at a path, without its size, and does not open it.
	Identify(path string) (Info, error)
}

// A Handle is an open device. As long as it is open, its number means this device.
type Handle interface {
	io.ReaderAt
	io.Closer
	// Info returns the facts from the time of opening.
	Info() Info
	// File returns the open file that a program gets as descriptor 3, or nil for a device
	// that has only a path.
	File() *os.File
	// InUse reports whether the device is in use. A loop device named ignore that is
	// detached and ends with its last user does not count.
	InUse(ctx context.Context, ignore string) (bool, error)
	// Write opens the device exclusively, runs write and syncs.
	Write(write func(io.WriterAt) error) error
}

// Info is the knowledge of the kernel about a device: nothing of it is read from the device.
type Info struct {
	Path   string // of the node, without symbolic links
	Number uint64 // as stat(2) returns it; 0: a disk in memory
	Major  uint32
	Minor  uint32
	Size   int64 // in bytes, of whole logical blocks
	// ReadOnly: the kernel refuses writes to the device.
	ReadOnly bool
	Identity Identity
	// Stack are the devices that change together with this one, itself among them, as
	// "major:minor", sorted.
	Stack []string
}
