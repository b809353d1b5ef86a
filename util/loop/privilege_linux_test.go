package loop

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMissingPrivilege: the error names the privilege, and the cause stands last.
func TestMissingPrivilege(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.EACCES} {
		err := namePrivilege(errno)
		require.EqualError(t, err, "requires root with CAP_SYS_ADMIN in the initial user namespace: "+errno.Error())
		require.ErrorIs(t, err, errno)
	}
	require.Equal(t, unix.EBUSY, namePrivilege(unix.EBUSY))
}

// TestMissingConfigure: the error names the release of Linux only if the kernel lacks the call.
func TestMissingConfigure(t *testing.T) {
	for _, missing := range []bool{true, false} {
		err := nameRelease(unix.EINVAL, func() bool { return !missing })
		require.ErrorIs(t, err, unix.EINVAL)
		require.Equal(t, missing, errors.Is(err, errors.ErrUnsupported))
		require.Equal(t, missing, strings.HasPrefix(err.Error(), "LOOP_CONFIGURE: requires Linux 5.8: "))
	}
	require.Equal(t, unix.EBUSY, nameRelease(unix.EBUSY, nil))
	file, err := os.Open(t.TempDir()) // no loop device: ENOTTY
	require.NoError(t, err)
	require.False(t, hasConfigure(file))
	require.NoError(t, file.Close())
}
