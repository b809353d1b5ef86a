package mountinfo

import (
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/options"
)

// An Entry is one line of the mount table, proc_pid_mountinfo(5).
type Entry struct {
	ID     int // mount ID; the kernel reuses it after an unmount
	Parent int // mount ID of the parent; of the root mount: an ID outside the table

	Major, Minor uint32 // device, as stat(2) reports it for files inside the mount
	Root         string
	Deleted      bool // the root was removed; Root is its last path
	Mountpoint   string

	Flags   options.Flags
	Options []string // options of the mount, flags included, as the kernel prints them
	Tags    []string // propagation: "shared:1", "master:2", "propagate_from:3", "unbindable"

	FSType       string   // "ext4", "nfs4", "fuse.sshfs"
	Source       string   // any text; may be empty
	SuperOptions []string // options of the file system
}

// IDMapped reports whether the mount shows other owners than the file system stores.
func (e *Entry) IDMapped() bool { return slices.Contains(e.Options, "idmapped") }

// HasDaemon reports whether a daemon serves the file system: FUSE without a block device.
func (e *Entry) HasDaemon() bool {
	return e.Major == 0 && (e.FSType == "fuse" || e.FSType == "virtiofs" || strings.HasPrefix(e.FSType, "fuse."))
}

// A Content is a directory or file of a file system. Mounts with equal contents show the
// same.
type Content struct {
	Device kernel.Device
	Root   string
}

// ContentRoot returns the root of a mount for its [Content]. Each mount of NFS has the root
// "/"; its source names the mounted directory.
func ContentRoot(fsType, source, root string) string {
	if !IsNFS(fsType) {
		return root
	}
	return strings.TrimRight(strings.TrimRight(source, "/")+root, "/")
}

// IsNFS reports whether a file system type is NFS.
func IsNFS(fsType string) bool { return fsType == "nfs" || fsType == "nfs4" }
