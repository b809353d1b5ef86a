package mountinfo

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/options"
	"golang.org/x/sys/unix"
)

// TestStatusWithoutStatmount: the mount table and statmount(2) report the same status.
func TestStatusWithoutStatmount(t *testing.T) {
	for _, path := range []string{"/", "/proc", "/sys", "/dev"} {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer kernel.Close(fd)
		status, err := StatMount(fd)
		if err != nil {
			return // this kernel has no statmount to compare with
		}
		entry, err := EntryOf(fd)
		require.NoError(t, err)
		require.Equal(t, entry.Flags, options.FlagsOf(status.Attrs), path)
		require.Equal(t, uint64(entry.Parent), status.ParentID, path)
		require.Equal(t, entry.SuperOptions[0] == "ro", status.SuperReadOnly, path)
	}
}
