package mount

// An Info is one line of the mount table, proc_pid_mountinfo(5).
type Info struct {
	ID     int // mount ID; the kernel reuses it after an unmount
	Parent int // mount ID of the parent; of the root mount: an ID outside of the table

	Major, Minor uint32 // device, as stat(2) reports it for files inside the mount
	Root         string // the mounted directory or file of the file system
	Deleted      bool   // the root was removed; Root is its last path
	Mountpoint   string // path from the root of the process

	Flags   Flags    // of the mount
	Options []string // of the mount, flags included, as the kernel prints them
	Tags    []string // propagation: "shared:1", "master:2", "propagate_from:3", "unbindable"

	FSType       string   // "ext4", "nfs4", "fuse.sshfs"
	Source       string   // as given to the kernel: any text; may be empty
	SuperOptions []string // of the file system
}
