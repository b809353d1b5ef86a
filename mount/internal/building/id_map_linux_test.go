package building

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRefusedIDMap: the error names the missing requirement, and is no EPERM, which callers would
// take for a system call filter's.
func TestRefusedIDMap(t *testing.T) {
	for errno, requires := range map[unix.Errno]string{
		unix.EPERM:  "requires CAP_SYS_ADMIN in the user namespace of the file system",
		unix.EINVAL: "requires a file system type with ID maps",
		unix.ENOSYS: "requires mount_setattr(2), Linux 5.12",
	} {
		err := explainRefusedMap(errno)
		require.ErrorContains(t, err, requires)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.NotErrorIs(t, err, unix.EPERM)
	}
	require.Equal(t, unix.EIO, explainRefusedMap(unix.EIO))
	require.NoError(t, explainRefusedMap(nil))
}
