package mount_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func TestIsCorrupted(t *testing.T) {
	for _, errno := range []syscall.Errno{
		syscall.ENOTCONN, syscall.ESTALE, syscall.EIO, syscall.EHOSTDOWN, syscall.EWOULDBLOCK, 512,
	} {
		require.True(t, mount.IsCorrupted(errno))
		require.True(t, mount.IsCorrupted(fmt.Errorf("stat: %w", &os.PathError{Op: "stat", Path: "/x", Err: errno})))
		require.True(t, mount.IsCorrupted(&mount.Error{Op: "mount", Err: errors.Join(errors.New("x"), errno)}))
	}
	for _, err := range []error{nil, syscall.EACCES, syscall.ENOENT, fs.ErrNotExist, errors.New("stale"), syscall.EBUSY, syscall.EROFS} {
		require.False(t, mount.IsCorrupted(err), "%v", err)
	}
}
