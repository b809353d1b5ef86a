package mount

import (
	"sync"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// A mountID names a mount.
type mountID struct {
	number uint64
	unique bool // never used again, and not the number in the mount table (Linux 6.8)
}

// A standing says what a descriptor leads to, as far as unmounting asks.
type standing struct {
	id           mountID
	major, minor uint32
	dir          bool
	// root is that it is the root of a mount, if that is known (Linux 5.8).
	root, rootKnown bool
}

// standingOf asks no file system.
func standingOf(fd int) (standing, error) {
	var x unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|quiet, mask, &x); err != nil {
		return standing{}, err
	}
	s := standing{major: x.Dev_major, minor: x.Dev_minor, dir: x.Mode&unix.S_IFMT == unix.S_IFDIR}
	s.root, s.rootKnown = mountRoot(&x)
	s.id = mountID{number: x.Mnt_id, unique: x.Mask&unix.STATX_MNT_ID_UNIQUE != 0}
	if x.Mask&(unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE) != 0 {
		return s, nil
	}
	number, err := safepath.MountID(fd) // Linux before 5.8
	s.id.number = uint64(number)
	return s, err
}

// isMountIn reports whether it is the root of a mount; above is the directory that
// it was found in.
func (s standing) isMountIn(above standing) bool {
	if s.rootKnown {
		return s.root
	}
	return s.id != above.id
}

// sameFileSystem reports whether both are of one file system, for sure. Files are
// not compared: some file systems give them the number of another's device.
func (s standing) sameFileSystem(above standing) bool {
	return s.dir && above.dir && s.major == above.major && s.minor == above.minor
}

// calm are the mounts whose file systems ask nobody for a name that is in memory,
// as the name of a mount point always is: looking one up waits for nothing.
type calm struct {
	mu    sync.Mutex
	known map[uint64]bool
}

// calmKinds are the magic numbers of those file systems. Others look whether what
// is in memory is still true.
var calmKinds = map[uint64]bool{
	unix.EXT4_SUPER_MAGIC:  true, // ext2 and ext3, too
	unix.XFS_SUPER_MAGIC:   true,
	unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC:  true,
	unix.TMPFS_MAGIC:       true,
	unix.RAMFS_MAGIC:       true,
}

// mostKnown is how many mounts are remembered.
const mostKnown = 256

// includes reports whether the mount that fd, of that standing, is in is one.
// Where the kernel does not tell (Linux before 6.8) none is.
func (c *calm) includes(s standing) bool {
	if !s.id.unique {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	calm, ok := c.known[s.id.number]
	if ok {
		return calm
	}
	kind, err := statMountKind(s.id.number)
	if err != nil {
		return false
	}
	if c.known == nil || len(c.known) >= mostKnown {
		c.known = map[uint64]bool{}
	}
	calm = calmKinds[kind]
	c.known[s.id.number] = calm
	return calm
}

// isCalm reports whether mounting on a target can be done without a goroutine: the
// kernel locks the target's directory, and nobody who waits for a server has it
// locked.
func (m *Mounter) isCalm(target string) bool {
	fd, err := openCached(unix.AT_FDCWD, target, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	return m.isCalmAt(fd)
}

func (m *Mounter) isCalmAt(fd int) bool {
	s, err := standingOf(fd)
	return err == nil && m.leaving.calm.includes(s)
}
