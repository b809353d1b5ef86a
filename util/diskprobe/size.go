package diskprobe

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// extSize returns the size in a superblock of ext2, ext3 or ext4.
func extSize(superblock []byte) int64 {
	const wide, largestShift = 0x80, 6 // 64 KiB
	blocks := uint64(binary.LittleEndian.Uint32(superblock[4:]))
	if binary.LittleEndian.Uint32(superblock[96:])&wide != 0 {
		blocks |= uint64(binary.LittleEndian.Uint32(superblock[336:])) << 32
	}
	shift := binary.LittleEndian.Uint32(superblock[24:])
	if shift > largestShift {
		return 0
	}
	return sizeOf(blocks, 1024<<shift)
}

func (d disk) xfsSize() int64 {
	superblock := d.bytes(0, 16)
	if superblock == nil {
		return 0
	}
	return sizeOf(binary.BigEndian.Uint64(superblock[8:]), uint64(binary.BigEndian.Uint32(superblock[4:])))
}

// btrfsSize returns the size of this device: the file system may have others.
func (d disk) btrfsSize() int64 {
	const itsSize = 209
	b := d.bytes(btrfsSuper+itsSize, 8)
	if b == nil {
		return 0
	}
	return sizeOf(binary.LittleEndian.Uint64(b), 1)
}

func sizeOf(blocks, blockSize uint64) int64 {
	high, low := bits.Mul64(blocks, blockSize)
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
