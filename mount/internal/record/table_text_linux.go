package record

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// WantLine is the mask of a complete line of the mount table (Linux 6.13).
const WantLine = WantDevice | WantMount | WantOrigin | WantRoot | WantPoint | WantType | WantSubtype | WantSource | WantOptions | WantSecurity

// FSType returns the type with its subtype, such as fuse.sshfs.
func (r Record) FSType() string {
	fsType := string(r.Bytes(WantType, r.TypeAt))
	if sub := r.Bytes(WantSubtype, r.subtype); len(sub) > 0 {
		return fsType + "." + string(sub)
	}
	return fsType
}

// printedOptions lists the options of a mount in the order of the mount table.
var printedOptions = []struct {
	attr   uint64
	option string
}{
	{unix.MOUNT_ATTR_NOSUID, "nosuid"},
	{unix.MOUNT_ATTR_NODEV, "nodev"},
	{unix.MOUNT_ATTR_NOEXEC, "noexec"},
	{unix.MOUNT_ATTR_NOATIME, "noatime"},
	{unix.MOUNT_ATTR_NODIRATIME, "nodiratime"},
	{0, "relatime"}, // the atime attribute without a bit
	{unix.MOUNT_ATTR_NOSYMFOLLOW, "nosymfollow"},
	{unix.MOUNT_ATTR_IDMAP, "idmapped"},
}

// MountOptions returns the options of the mount as the mount table prints them.
func (r Record) MountOptions() []string {
	options := []string{readOnlyOption(r.Attrs&unix.MOUNT_ATTR_RDONLY != 0)}
	for _, p := range printedOptions {
		if r.Attrs&p.attr != 0 || p.attr == 0 && r.Attrs&unix.MOUNT_ATTR__ATIME == 0 {
			options = append(options, p.option)
		}
	}
	return options
}

func readOnlyOption(readOnly bool) string {
	if readOnly {
		return "ro"
	}
	return "rw"
}

// PropagationTags returns the optional fields of the mount table: shared:1, master:2, ...
func (r Record) PropagationTags() []string {
	tags := []string{}
	if r.propagation&unix.MS_SHARED != 0 {
		tags = append(tags, fmt.Sprintf("shared:%d", r.peers))
	}
	if r.propagation&unix.MS_SLAVE != 0 {
		tags = append(tags, fmt.Sprintf("master:%d", r.master))
		if r.Has(WantOrigin) && r.from != 0 && r.from != r.master {
			tags = append(tags, fmt.Sprintf("propagate_from:%d", r.from))
		}
	}
	if r.propagation&unix.MS_UNBINDABLE != 0 {
		tags = append(tags, "unbindable")
	}
	return tags
}

// SuperOptions returns the options of the file system as the mount table prints them.
func (r Record) SuperOptions() []string {
	options := []string{readOnlyOption(r.superFlags&superReadOnly != 0)}
	for _, p := range []struct {
		flag   uint32
		option string
	}{{unix.MS_SYNCHRONOUS, "sync"}, {unix.MS_DIRSYNC, "dirsync"}, {unix.MS_LAZYTIME, "lazytime"}} {
		if r.superFlags&p.flag != 0 {
			options = append(options, p.option)
		}
	}
	options = append(options, r.Strings(WantSecurity, r.securityAt, r.security)...)
	return append(options, r.Strings(WantOptions, r.optionsAt, r.options)...)
}
