package mount

import "github.com/volumekit/volumekit/mount/internal/options"

// Flags are the properties that a mount has apart from its file system.
type Flags uint32

// The flags, named after their mount(8) options. A mount with neither NoAtime
// nor StrictAtime is relatime, the kernel's default.
const (
	ReadOnly    Flags = 1 << iota // ro
	NoSUID                        // nosuid
	NoDev                         // nodev
	NoExec                        // noexec
	NoSymFollow                   // nosymfollow, Linux 5.10
	NoDirAtime                    // nodiratime
	NoAtime                       // noatime
	StrictAtime                   // strictatime
)

// String returns the flags as mount(8) options: "rw,nosuid,nodev".
func (f Flags) String() string { return options.Flags(f).String() }
