package mount

import "golang.org/x/sys/unix"

// kernelFlags has each flag as mount_setattr(2), mount(2) and statfs(2) spell it.
var kernelFlags = []struct {
	flag   Flags
	attr   uint64
	ms     uintptr
	statfs int64
}{
	{ReadOnly, unix.MOUNT_ATTR_RDONLY, unix.MS_RDONLY, unix.ST_RDONLY},
	{NoSUID, unix.MOUNT_ATTR_NOSUID, unix.MS_NOSUID, unix.ST_NOSUID},
	{NoDev, unix.MOUNT_ATTR_NODEV, unix.MS_NODEV, unix.ST_NODEV},
	{NoExec, unix.MOUNT_ATTR_NOEXEC, unix.MS_NOEXEC, unix.ST_NOEXEC},
	{NoSymFollow, unix.MOUNT_ATTR_NOSYMFOLLOW, unix.MS_NOSYMFOLLOW, stNoSymFollow},
	{NoDirAtime, unix.MOUNT_ATTR_NODIRATIME, unix.MS_NODIRATIME, unix.ST_NODIRATIME},
	{NoAtime, unix.MOUNT_ATTR_NOATIME, unix.MS_NOATIME, unix.ST_NOATIME},
	{StrictAtime, unix.MOUNT_ATTR_STRICTATIME, unix.MS_STRICTATIME, 0},
}

const stNoSymFollow = 0x2000 // ST_NOSYMFOLLOW, linux/statfs.h

// attrs spells flags for fsmount(2) and mount_setattr(2).
func (f Flags) attrs() uint64 {
	var attrs uint64
	for _, k := range kernelFlags {
		if f&k.flag != 0 {
			attrs |= k.attr
		}
	}
	return attrs
}

// ms spells flags for mount(2), which takes no atime flag at all for relatime.
func (f Flags) ms() uintptr {
	var ms uintptr
	for _, k := range kernelFlags {
		if f&k.flag != 0 {
			ms |= k.ms
		}
	}
	if f&atime == 0 {
		ms |= unix.MS_RELATIME
	}
	return ms
}

// statfsFlags asks the kernel for the flags of the mount that fd is in. A file
// system that is read-only itself counts as read-only. It asks the file system,
// too, and waits for it.
func statfsFlags(fd int) (Flags, error) {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(fd, &stat); err != nil {
		return 0, err
	}
	var flags Flags
	for _, k := range kernelFlags {
		if int64(stat.Flags)&k.statfs != 0 {
			flags |= k.flag
		}
	}
	if int64(stat.Flags)&(unix.ST_NOATIME|unix.ST_RELATIME) == 0 {
		flags |= StrictAtime
	}
	return flags, nil
}

// setattr is what the options ask of mount_setattr(2).
func (o Options) setattr() unix.MountAttr {
	set, clear := o.Set.attrs(), (o.Clear &^ atime).attrs()
	if (o.Set|o.Clear)&atime != 0 {
		clear |= unix.MOUNT_ATTR__ATIME
	}
	// Private: the clone of a shared mount would join its peers, and every mount
	// and unmount in it would cost one visit to each of them.
	return unix.MountAttr{Attr_set: set, Attr_clr: clear, Propagation: unix.MS_PRIVATE}
}
