package options

import "golang.org/x/sys/unix"

// kernelFlags has each flag as a mount attribute of mount_setattr(2) and as a bit of mount(2).
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

// Attributes returns the flags as mount attributes, for fsmount(2) and mount_setattr(2).
func (f Flags) Attributes() uint64 {
	var attrs uint64
	for _, k := range kernelFlags {
		if f&k.flag != 0 {
			attrs |= k.attr
		}
	}
	return attrs
}

// FlagsOf returns the flags that mount attributes stand for.
func FlagsOf(attrs uint64) Flags {
	var flags Flags
	for _, k := range kernelFlags {
		if k.flag&atime == 0 && attrs&k.attr != 0 {
			flags |= k.flag
		}
	}
	switch attrs & unix.MOUNT_ATTR__ATIME {
	case unix.MOUNT_ATTR_NOATIME:
		flags |= NoAtime
	case unix.MOUNT_ATTR_STRICTATIME:
		flags |= StrictAtime
	}
	return flags
}

// Bits returns the flags as bits for mount(2). Relatime is a bit of its own there.
func (f Flags) Bits() uintptr {
	var bits uintptr
	for _, k := range kernelFlags {
		if f&k.flag != 0 {
			bits |= k.ms
		}
	}
	if f&atime == 0 {
		bits |= unix.MS_RELATIME
	}
	return bits
}

// Change returns the change of mount attributes that the options ask for.
func (o Options) Change() unix.MountAttr {
	set, clear := o.Set.Attributes(), (o.Clear &^ atime).Attributes()
	if (o.Set|o.Clear)&atime != 0 {
		clear |= unix.MOUNT_ATTR__ATIME
	}
	return unix.MountAttr{Attr_set: set, Attr_clr: clear}
}

// superBits are the super options that are bits of mount(2). "async" and the like are the
// absence of a bit.
var superBits = map[string]uintptr{
	"sync":     unix.MS_SYNCHRONOUS,
	"dirsync":  unix.MS_DIRSYNC,
	"lazytime": unix.MS_LAZYTIME,
	"mand":     unix.MS_MANDLOCK,
}

// SplitBits returns the super options among data as bits for mount(2), and the other options.
func SplitBits(data []string) (bits uintptr, rest []string) {
	for _, option := range data {
		if IsSuper(option) {
			bits |= superBits[option]
		} else {
			rest = append(rest, option)
		}
	}
	return bits, rest
}
