package diskprobe

import "fmt"

// A Kind is what a signature stands for.
type Kind int

// The kinds.
const (
	Data       Kind = iota // bytes that are not zero, of nobody knows what
	FileSystem             // may be mounted
	Table                  // of partitions
	Member                 // of a RAID, a volume group, a pool or a cache
	Swap
	Encrypted
)

var kindNames = [...]string{"data", "file system", "partition table", "member", "swap", "encrypted"}

// String returns the kind in a word or two.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown kind of content"
	}
	return kindNames[k]
}

// A Found is one thing that is on a disk.
type Found struct {
	Name   string // as the file system is called to mount(8), or like "gpt", "lvm2"
	Kind   Kind
	Offset int64  // of the signature, in bytes
	UUID   string // of ext2, ext3, ext4, xfs and btrfs, also of one that is unfinished
}

// String returns the name, the kind and the place.
func (f Found) String() string {
	if f.Kind == Data {
		return fmt.Sprintf("unknown data (byte %d)", f.Offset)
	}
	return fmt.Sprintf("%s (%s, byte %d)", f.Name, f.Kind, f.Offset)
}
