package mount

import "golang.org/x/sys/unix"

// kernelFlags has each flag as mount_setattr(2) and mount(2) spell it.
var kernelFlags = []struct {
	flag Flags
	attr uint64
	ms   uintptr
}{
	{ReadOnly, unix.MOUNT_ATTR_RDONLY, unix.MS_RDONLY},
	{NoSUID, unix.MOUNT_ATTR_NOSUID, unix.MS_NOSUID},
	{NoDev, unix.MOUNT_ATTR_NODEV, unix.MS_NODEV},
	{NoExec, unix.MOUNT_ATTR_NOEXEC, unix.MS_NOEXEC},
	{NoSymFollow, unix.MOUNT_ATTR_NOSYMFOLLOW, unix.MS_NOSYMFOLLOW},
	{NoDirAtime, unix.MOUNT_ATTR_NODIRATIME, unix.MS_NODIRATIME},
	{NoAtime, unix.MOUNT_ATTR_NOATIME, unix.MS_NOATIME},
	{StrictAtime, unix.MOUNT_ATTR_STRICTATIME, unix.MS_STRICTATIME},
}

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

// setattr is what the options ask of mount_setattr(2).
func (o Options) setattr() unix.MountAttr {
	set, clear := o.Set.attrs(), (o.Clear &^ atime).attrs()
	if (o.Set|o.Clear)&atime != 0 {
		clear |= unix.MOUNT_ATTR__ATIME
	}
	return unix.MountAttr{Attr_set: set, Attr_clr: clear}
}
