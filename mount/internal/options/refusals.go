package options

import "strings"

// ignored are options for the readers of fstab. The kernel never receives them.
var ignored = map[string]bool{
	"defaults": true, "_netdev": true, "nofail": true, "auto": true,
	"noauto": true, "nouser": true, "nousers": true, "noowner": true, "nogroup": true,
	"silent": true, "loud": true,
}

// isIgnored reports whether a checked option is for the readers of fstab.
func isIgnored(option string) bool {
	key, _, _ := strings.Cut(option, "=")
	return ignored[option] || isComment(key)
}

// isComment reports whether options with this name are for one reader of fstab alone, such as
// systemd.
func isComment(key string) bool {
	return key == "comment" || strings.HasPrefix(key, "x-")
}

// forbidden are options that turn a mount into another kind of mount, or that only an
// administrator may use. The values name the alternative.
var forbidden = map[string]string{
	"bind": "Request.FSType is empty for a bind mount", "rbind": "Request.Submounts includes mounts below",
	"move": notForUsers, "remount": "Request.Remount changes a mount",
	"loop": loopDevice, "offset": loopDevice, "sizelimit": loopDevice,
	"helper": notForUsers, "uhelper": notForUsers,
	"user": forFstab, "users": forFstab, "owner": forFstab, "group": forFstab,
	"private": propagation, "rprivate": propagation, "slave": propagation, "rslave": propagation,
	"shared": propagation, "rshared": propagation, "unbindable": notForUsers, "runbindable": notForUsers,
	"addr": fromSource, "clientaddr": fromSource, "mountaddr": fromSource, "mounthost": fromSource,
	"source":  "Request.Source is the source",
	"subtype": `Request.FSType has it, after a dot ("fuse.sshfs")`,
	"suid":    "set-user-ID files are not allowed here: mount.Config.Allow.SUID allows them",
	"dev":     "device files are not allowed here: mount.Config.Allow.Dev allows them",
	"context": notGranted, "fscontext": notGranted,
	"defcontext": notGranted, "rootcontext": notGranted,
	"errors=panic": "a file system must not take the node down",
}

const (
	notForUsers = "this option is not for a request to give"
	notGranted  = "SELinux contexts are not allowed here: mount.Config.Allow.Context allows them"
	loopDevice  = "attach a loop device first (package util/loop), and mount that"
	forFstab    = `it lets users mount by fstab: leave it out; "noexec" has its effect on programs`
	propagation = "Request.Propagation says how mounts propagate"
	fromSource  = "the address is that of the source"
)

// super are the super options.
var super = map[string]bool{
	"sync": true, "async": true, "dirsync": true, "lazytime": true,
	"nolazytime": true, "mand": true, "nomand": true,
}

// IsSuper reports whether the option is a super option.
func IsSuper(option string) bool { return super[option] }
