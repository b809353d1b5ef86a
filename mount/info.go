package mount

import "strings"

// An Info is one line of the mount table, proc_pid_mountinfo(5).
type Info struct {
	ID     int // of the mount; the kernel uses it again after an unmount
	Parent int // the mount that Mountpoint is in; of the root, one that is not listed

	Major, Minor uint32 // the device, as stat(2) reports it for the files inside
	Root         string // the directory or file of the file system that is mounted
	Deleted      bool   // it has been removed since; Root is where it was
	Mountpoint   string // where, as seen from the process's root

	Flags   Flags    // of the mount
	Options []string // of the mount, as the kernel prints them, the flags among them
	Tags    []string // propagation: "shared:1", "master:2", "propagate_from:3", "unbindable"

	FSType       string   // "ext4", "nfs4", "fuse.sshfs"
	Source       string   // what was given as the source; may be empty or anything
	SuperOptions []string // of the file system
}

// sameContent reports whether a and b show the same directory or file.
func sameContent(a, b Info) bool {
	return a.Major == b.Major && a.Minor == b.Minor && a.Deleted == b.Deleted && a.root() == b.root()
}

// root returns what is mounted of the file system. Of NFS the table says in the
// source which directory it is, and has "/" for the root of every mount.
func (i Info) root() string { return rootOf(i.FSType, i.Source, i.Root) }

func rootOf(fsType, source, root string) string {
	if !isNFS(fsType) {
		return root
	}
	return strings.TrimRight(strings.TrimRight(source, "/")+root, "/")
}
