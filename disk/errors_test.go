package disk

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPermissionErrors: an error of permission names the missing privilege, once, and keeps its
// cause.
func TestPermissionErrors(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.EACCES} {
		err := failed("mount", "/dev/sdx", failed("open", "/dev/sdx", errno))
		require.EqualError(t, err, "open /dev/sdx: requires root in the initial user namespace, or permission for the device: "+errno.Error())
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorIs(t, err, errno)
	}
	require.EqualError(t, failed("mount", "/dev/sdx", syscall.EPERM), "mount /dev/sdx: "+syscall.EPERM.Error())
	require.EqualError(t, failed("open", "/dev/sdx", syscall.EIO), "open /dev/sdx: "+syscall.EIO.Error())
}
