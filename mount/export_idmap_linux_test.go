package mount

import (
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/record"
	"golang.org/x/sys/unix"
)

// HasMappedIDs reports whether the kernel reports the ID maps of mounts.
func HasMappedIDs(path string) bool {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer kernel.Close(fd)
	unique, err := kernel.UniqueMountID(fd)
	if err != nil {
		return false
	}
	r := record.Borrow()
	defer r.Return()
	f, err := r.Read(unique, record.WantUIDs|record.WantGIDs)
	return err == nil && f.Has(record.WantUIDs|record.WantGIDs)
}
