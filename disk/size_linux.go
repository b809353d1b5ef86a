package disk

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sizeOfMounted returns the size in bytes of a mounted xfs or btrfs.
func sizeOfMounted(fsType, target string) (size int64, err error) {
	dir, err := os.OpenFile(target, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = dir.Close() }()
	if fsType == "xfs" {
		size, err = sizeOfXFS(int(dir.Fd()))
	} else {
		size, err = sizeOfBtrfs(int(dir.Fd()))
	}
	if err != nil {
		return 0, fmt.Errorf("size of the %s at %s: %w", fsType, target, err)
	}
	return size, nil
}

// sizeOfXFS calls XFS_IOC_FSGEOMETRY_V1.
func sizeOfXFS(fd int) (int64, error) {
	const fsGeometry = 0x80705864
	var geometry struct {
		blockSize uint32
		_         [7]uint32
		blocks    uint64
		_         [72]byte
	}
	err := ioctl(fd, fsGeometry, unsafe.Pointer(&geometry))
	return int64(geometry.blocks) * int64(geometry.blockSize), err
}

// sizeOfBtrfs calls BTRFS_IOC_DEV_INFO for the first device.
func sizeOfBtrfs(fd int) (int64, error) {
	const devInfo = 0xd000941e
	var info struct {
		id        uint64
		_         [16]byte
		bytesUsed uint64
		size      uint64
		_         [4056]byte
	}
	info.id = 1
	err := ioctl(fd, devInfo, unsafe.Pointer(&info))
	return int64(info.size), err
}
