package testbed

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Subvolume creates a subvolume of btrfs in a directory.
func Subvolume(t testing.TB, dir, name string) {
	t.Helper()
	const subvolCreate = 0x5000940e
	args := make([]byte, 4096) // struct btrfs_ioctl_vol_args
	copy(args[8:], name)
	requireIoctl(t, dir, subvolCreate, args)
}

// Snapshot creates a read-only snapshot of a subvolume in a directory of its file system.
func Snapshot(t testing.TB, of, dir, name string) {
	t.Helper()
	const (
		snapCreateV2 = 0x50009417
		readOnly     = 1 << 1
	)
	fd := openDirectory(t, of)
	defer func() { _ = unix.Close(fd) }()
	args := make([]byte, 4096) // struct btrfs_ioctl_vol_args_v2
	binary.NativeEndian.PutUint64(args, uint64(fd))
	binary.NativeEndian.PutUint64(args[16:], readOnly)
	copy(args[56:], name)
	requireIoctl(t, dir, snapCreateV2, args)
}

// requireIoctl makes a request of linux/btrfs.h of a directory.
func requireIoctl(t testing.TB, dir string, request uintptr, args []byte) {
	t.Helper()
	fd := openDirectory(t, dir)
	defer func() { _ = unix.Close(fd) }()
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&args[0])))
	require.Zero(t, errno)
}

func openDirectory(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	return fd
}
