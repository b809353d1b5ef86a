package diskprobe

import "fmt"

// A Kind classifies content.
type Kind int

// The kinds.
const (
	Data       Kind = iota // unknown bytes that are not zero
	FileSystem             // may be mounted
	Table                  // a partition table
	Member                 // of a RAID, a volume group, a pool or a cache
	Swap
	Encrypted
)

var kindNames = [...]string{"data", "file system", "partition table", "member", "swap", "encrypted"}

// String returns the kind in one or two words.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown kind of content"
	}
	return kindNames[k]
}

// A Found is one content of a disk.
type Found struct {
	Name   string // the type of mount(8) for a file system, or a name such as "gpt", "lvm2"
	Kind   Kind
	Offset int64  // of the signature, in bytes
	UUID   string // of ext2, ext3, ext4, xfs and btrfs, also of an unfinished btrfs
	// Size is the size in bytes in the superblock of ext2, ext3, ext4, xfs or btrfs, at
	// most math.MaxInt64. 0: unknown. A smaller disk cannot be mounted.
	Size int64
}

// String returns the name, the kind and the offset.
func (f Found) String() string {
	if f.Kind == Data {
		return fmt.Sprintf("unknown data (byte %d)", f.Offset)
	}
	return fmt.Sprintf("%s (%s, byte %d)", f.Name, f.Kind, f.Offset)
}
