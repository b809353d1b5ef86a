package util_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/volume"
)

// TestTransient: a missing privilege, a missing file system of the kernel, or an ID that the user
// namespace does not map, is not transient.
func TestTransient(t *testing.T) {
	require.NoError(t, util.Transient(nil))
	for cause, want := range map[error]volume.ErrorKind{
		syscall.EPERM: volume.Final, fmt.Errorf("mount: %w", syscall.EPERM): volume.Final,
		mount.ErrUnknownFSType:                      volume.Final,
		beneath.NameUnmapped(syscall.EINVAL, -1, 5): volume.Final, syscall.EINVAL: volume.Transient,
		syscall.EACCES: volume.Transient, syscall.EIO: volume.Transient, context.Canceled: volume.Transient,
	} {
		err := util.Transient(cause)
		require.ErrorIs(t, err, cause)
		require.Equal(t, want, volume.KindOf(err), cause)
		require.Equal(t, cause.Error(), err.Error())
	}
}
