package record

import (
	"sync"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// Kinds remembers the kinds of mounted file systems. The zero value is ready for use.
type Kinds struct {
	mu    sync.Mutex
	known map[uint64]uint64 // by unique mount ID
}

// LocalKinds are the local kinds. A lookup of a mount point, whose name is always cached,
// waits for nothing there. Other kinds revalidate cached names.
var LocalKinds = map[uint64]bool{
	unix.EXT4_SUPER_MAGIC:  true, // also ext2 and ext3
	unix.XFS_SUPER_MAGIC:   true,
	unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC:  true,
	unix.TMPFS_MAGIC:       true,
	unix.RAMFS_MAGIC:       true,
}

// MemoryKinds are the kinds without storage: neither lookups nor changes wait. Tests change
// it.
var MemoryKinds = map[uint64]bool{unix.TMPFS_MAGIC: true, unix.RAMFS_MAGIC: true}

// maxRemembered bounds the remembered mounts.
const maxRemembered = 256

// IsLocal reports whether the file system of a mount is local. Without unique mount IDs
// (Linux before 6.8) it is false.
func (c *Kinds) IsLocal(mount kernel.MountID) bool {
	return LocalKinds[c.kind(mount)]
}

// IsInMemory reports whether the file system of a mount is in memory alone: tmpfs or ramfs.
func (c *Kinds) IsInMemory(mount kernel.MountID) bool { return MemoryKinds[c.kind(mount)] }

// IsTmpfs reports whether the file system of a mount is a tmpfs.
func (c *Kinds) IsTmpfs(mount kernel.MountID) bool { return c.kind(mount) == unix.TMPFS_MAGIC }

// kind returns the magic number of a mount's file system, read once for each mount. It
// returns 0 if the number cannot be read.
func (c *Kinds) kind(mount kernel.MountID) uint64 {
	if !mount.Unique {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind, ok := c.known[mount.Number]; ok {
		return kind
	}
	kind, err := readKind(mount.Number)
	if err != nil {
		return 0
	}
	if c.known == nil || len(c.known) >= maxRemembered {
		c.known = map[uint64]uint64{}
	}
	c.known[mount.Number] = kind
	return kind
}
