package loop

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMissingPrivilege: the error names the privilege, and the cause stands last.
func TestMissingPrivilege(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.EACCES} {
		err := namePrivilege(errno)
		require.EqualError(t, err, "requires root with CAP_SYS_ADMIN: "+errno.Error())
		require.ErrorIs(t, err, errno)
	}
	require.Equal(t, unix.EBUSY, namePrivilege(unix.EBUSY))
}
