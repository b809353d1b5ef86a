package record

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Known returns the remembered kinds.
func (c *Kinds) Known() map[uint64]uint64 { return c.known }

func TestStructureSizes(t *testing.T) {
	require.EqualValues(t, 512, unsafe.Sizeof(statmountAnswer{}))
	require.EqualValues(t, 24, unsafe.Sizeof(statmountRequest{}))
}

// TestMissingCalls: the error of a missing call names the release of Linux, that of a forbidden
// one the privilege.
func TestMissingCalls(t *testing.T) {
	for errno, requires := range map[unix.Errno]string{
		unix.ENOSYS: "requires Linux 6.8: ",
		unix.EPERM:  "requires CAP_SYS_ADMIN in the user namespace of the mount namespace, ",
	} {
		err := explainMissingCall(errno)
		require.ErrorContains(t, err, "statmount(2) and listmount(2): "+requires)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorIs(t, err, errno)
	}
	require.Equal(t, unix.ENOENT, explainMissingCall(unix.ENOENT))
}
