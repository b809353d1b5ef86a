package diskprobe

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// ext detects ext2, ext3 and ext4, and distinguishes them by their features.
func (d disk) ext() []Found {
	const at = 1024
	sb := d.bytes(at, 1024)
	if sb == nil || binary.LittleEndian.Uint16(sb[56:]) != 0xef53 {
		return nil
	}
	compatible := binary.LittleEndian.Uint32(sb[92:])
	incompatible := binary.LittleEndian.Uint32(sb[96:])
	readOnly := binary.LittleEndian.Uint32(sb[100:])
	const (
		journal       = 0x4
		journalDevice = 0x8
		// The features of ext3: file types, a journal to replay, meta block groups; sparse
		// superblocks, large files, B-tree directories.
		ofExt3, readOnlyOfExt3 = 0x2 | 0x4 | 0x10, 0x1 | 0x2 | 0x4
	)
	found := Found{Name: "ext2", Kind: FileSystem, Offset: at, UUID: uuid(sb[104:120]), Size: extSize(sb)}
	switch {
	case incompatible&journalDevice != 0:
		found.Name, found.Kind = "jbd", Member
	case incompatible&^ofExt3 != 0 || readOnly&^readOnlyOfExt3 != 0:
		found.Name = "ext4"
	case compatible&journal != 0:
		found.Name = "ext3"
	}
	return []Found{found}
}

func (d disk) btrfs() []Found {
	switch {
	case d.has(btrfsSuper+64, "_BHRfS_M"):
		return []Found{{Name: "btrfs", Kind: FileSystem, Offset: btrfsSuper, UUID: uuid(d.bytes(btrfsSuper+32, 16)), Size: d.btrfsSize()}}
	case d.has(btrfsSuper+64, "!BHRfS_M"): // the magic during mkfs
		return []Found{d.unfinishedBtrfs(btrfsSuper)}
	case d.has(btrfsTree+48, "\x00\x00\x10\x00\x00\x00\x00\x00"): // a tree block records its own address
		if f := d.unfinishedBtrfs(btrfsTree); f.UUID != "" {
			return []Found{f}
		}
	}
	return nil
}

const (
	btrfsSuper, btrfsSuperSize = 64 << 10, 4 << 10
	btrfsTree                  = 1 << 20
)

// unfinishedBtrfs returns the remains of an interrupted mkfs.btrfs, which clears the
// beginning and the end of the disk, writes trees, and then a superblock. Beside other data
// the remains may be someone else's, and have no UUID.
func (d disk) unfinishedBtrfs(at int64) Found {
	f := Found{Name: "btrfs, unfinished", Kind: Data, Offset: at}
	if len(d.head) < btrfsTree { // smaller than any btrfs
		return f
	}
	for _, rest := range [][]byte{d.head[:btrfsSuper], d.head[btrfsSuper+btrfsSuperSize : btrfsTree], d.tail} {
		if firstByte(rest) >= 0 {
			return f
		}
	}
	if at == btrfsSuper || firstByte(d.head[btrfsSuper:btrfsTree]) < 0 {
		f.UUID = uuid(d.bytes(at+32, 16))
	}
	return f
}

// raid detects Linux's RAID of version 0.90 and 1.0, whose superblocks are near the end.
func (d disk) raid() []Found {
	var all []Found
	places := []int64{d.size&^(64<<10-1) - 64<<10, (d.size/512 - 16) &^ 7 * 512}
	for _, at := range slices.Compact(places) {
		for _, magic := range []string{"\xfc\x4e\x2b\xa9", "\xa9\x2b\x4e\xfc"} {
			if d.has(at, magic) {
				all = append(all, Found{Name: "linux_raid", Kind: Member, Offset: at})
			}
		}
	}
	return all
}

// zfs detects the first uberblock of each of the four labels.
func (d disk) zfs() []Found {
	const label, ring = 256 << 10, 128 << 10
	var all []Found
	end := d.size &^ (label - 1)
	for _, start := range []int64{0, label, end - 2*label, end - label} {
		for at := start + ring; at < start+label; at += 1024 {
			if d.has(at, "\x0c\xb1\xba\x00\x00\x00\x00\x00") || d.has(at, "\x00\x00\x00\x00\x00\xba\xb1\x0c") {
				all = append(all, Found{Name: "zfs_member", Kind: Member, Offset: at})
				break
			}
		}
	}
	return all
}

// mbr detects a partition table, unless the sector is the first one of a file system.
func (d disk) mbr(others []Found) []Found {
	if !d.has(510, "\x55\xaa") || slices.ContainsFunc(others, func(f Found) bool {
		return slices.Contains([]string{"ntfs", "exfat", "vfat", "bitlocker"}, f.Name)
	}) {
		return nil
	}
	return []Found{{Name: "mbr", Kind: Table, Offset: 510}}
}

// spareGPT detects the copy of a GPT at the end of the disk. Beside a single file system it
// is left from a table that was overwritten, and does not count.
func (d disk) spareGPT(others []Found) []Found {
	if _, ok := Only(others); ok {
		return nil
	}
	var all []Found
	for _, sector := range []int64{512, 4096} {
		if at := d.size - sector; d.has(at, "EFI PART") {
			all = append(all, Found{Name: "gpt", Kind: Table, Offset: at})
		}
	}
	return all
}

func uuid(b []byte) string {
	if len(b) != 16 {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
