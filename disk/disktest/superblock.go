package disktest

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/volumekit/volumekit/disk"
)

// smallest are the sizes below which the programs refuse a disk.
var smallest = map[string]int64{"ext2": 112 << 10, "ext3": 112 << 10, "ext4": 112 << 10, "xfs": 300 << 20, "btrfs": 109 << 20}

// format writes the parts of a file system that package disk reads.
func (d *memory) format(fsType string, args []string) error {
	if d.info.Size < smallest[fsType] {
		return &disk.ToolError{Tool: "mkfs." + fsType, ExitCode: 1, Output: "the disk is too small"}
	}
	id := uuidIn(args)
	d.pages = map[int64][]byte{0: d.firstPage(fsType)}
	switch fsType {
	case "xfs":
		d.write([]byte("XFSB"), 0)
		d.write(id, xfsUUIDAt)
	case "btrfs":
		d.write(id, btrfsAt+32)
		d.write([]byte("_BHRfS_M"), btrfsAt+64)
	default:
		d.write([]byte{0x53, 0xef}, extAt+56)
		d.write(features[fsType], extAt+92)
		d.write(id, extAt+104)
	}
	d.grow()
	return nil
}

const (
	extAt, xfsUUIDAt, btrfsAt = 1024, 32, 64 << 10
	blockSize                 = 1024
)

// features are those by which the versions are told apart: compatible and incompatible.
var features = map[string][]byte{
	"ext2": make([]byte, 8), "ext3": {4, 0, 0, 0, 0, 0, 0, 0}, "ext4": {4, 0, 0, 0, 0x40, 0, 0, 0},
}

// firstPage returns the page after mkfs: only those of ext2 and its successors leave the
// first sector alone.
func (d *memory) firstPage(fsType string) []byte {
	page := make([]byte, pageSize)
	const sector = 512
	if strings.HasPrefix(fsType, "ext") {
		d.read(page[:sector], 0)
	}
	return page
}

// uuidIn returns the UUID among the arguments of mkfs.
func uuidIn(args []string) []byte {
	for i, arg := range args {
		text, ok := strings.CutPrefix(arg, "uuid=")
		if i > 0 && args[i-1] == "-U" {
			text, ok = arg, true
		}
		if id, err := hex.DecodeString(strings.ReplaceAll(text, "-", "")); ok && err == nil {
			return id
		}
	}
	return make([]byte, 16)
}

// grow writes the size of the disk into the superblock.
func (d *memory) grow() {
	magic := make([]byte, 8)
	blocks := uint64(d.info.Size / blockSize)
	switch d.read(magic[:4], 0); {
	case string(magic[:4]) == "XFSB":
		d.write(binary.BigEndian.AppendUint32(nil, blockSize), 4)
		d.write(binary.BigEndian.AppendUint64(nil, blocks), 8)
		return
	}
	if d.read(magic, btrfsAt+64); string(magic) == "_BHRfS_M" {
		const sizeAt = 209
		d.write(binary.LittleEndian.AppendUint64(nil, uint64(d.info.Size)), btrfsAt+sizeAt)
		return
	}
	d.write(binary.LittleEndian.AppendUint32(nil, uint32(blocks)), extAt+4)
}
