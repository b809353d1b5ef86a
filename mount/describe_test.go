package mount_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func ExampleInfo_Describe() {
	info := mount.Info{
		ID: 57, Parent: 23, Root: "/", Mountpoint: "/mnt/a b", Flags: mount.ReadOnly | mount.NoSUID,
		FSType: "nfs4", Source: "server:/export", SuperOptions: []string{"rw", "password=secret"},
	}
	fmt.Println(info.Describe())
	// Output: nfs4 server:/export on "/mnt/a b" (ro,nosuid), mount 57 in 23
}

func TestDescribe(t *testing.T) {
	info := mount.Info{Root: "/sub", Deleted: true, Mountpoint: "/m\n", Tags: []string{"shared:1"}, FSType: "ext4", SuperOptions: []string{"secret"}}
	require.Equal(t, `ext4 ""[/sub] (deleted) on "/m\n" (rw), mount 0 in 0, shared:1`, info.Describe())

	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("found", "mount", info)
	require.Contains(t, log.String(), "mount.type=ext4")
	require.Contains(t, log.String(), `mount.mountpoint="/m\n"`)
	require.NotContains(t, log.String(), "secret")
}

// TestErrorClasses: errors.Is finds the class of a cause below any number of wraps.
func TestErrorClasses(t *testing.T) {
	for _, test := range []struct {
		cause error
		class error
	}{
		{syscall.EBUSY, mount.ErrBusy},
		{syscall.EROFS, mount.ErrReadOnly},
		{syscall.ESTALE, mount.ErrCorrupted},
	} {
		err := fmt.Errorf("volume: %w", &mount.Error{Op: "mount", Err: fmt.Errorf("deep: %w", test.cause)})
		require.ErrorIs(t, err, test.class)
		others := 0
		for _, class := range []error{mount.ErrBusy, mount.ErrReadOnly, mount.ErrCorrupted} {
			if !errors.Is(err, class) {
				others++
			}
		}
		require.Equal(t, 2, others, "%v has one class", err)
	}
}
