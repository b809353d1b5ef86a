package mount

import "strings"

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

// atime is the one property of a mount with three values.
const atime = NoAtime | StrictAtime

// flagNames is in the order in which String lists the flags.
var flagNames = []struct {
	flag Flags
	name string
}{
	{ReadOnly, "ro"},
	{NoSUID, "nosuid"},
	{NoDev, "nodev"},
	{NoExec, "noexec"},
	{NoSymFollow, "nosymfollow"},
	{NoDirAtime, "nodiratime"},
	{NoAtime, "noatime"},
	{StrictAtime, "strictatime"},
}

// String returns the flags as mount(8) options: "rw,nosuid,nodev".
func (f Flags) String() string {
	names := []string{"rw"}
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	if f&ReadOnly != 0 {
		names = names[1:]
	}
	return strings.Join(names, ",")
}

// A flagChange is what naming one option does to the flags.
type flagChange struct{ set, clear Flags }

func (c flagChange) contradicts(d flagChange) bool {
	return c.set&d.clear|c.clear&d.set != 0
}

// flagOptions are the options of mount(8) that are flags of the mount.
// "norelatime" and "nostrictatime" only take back what is not the default.
var flagOptions = map[string]flagChange{
	"ro":            {set: ReadOnly},
	"rw":            {clear: ReadOnly},
	"nosuid":        {set: NoSUID},
	"suid":          {clear: NoSUID},
	"nodev":         {set: NoDev},
	"dev":           {clear: NoDev},
	"noexec":        {set: NoExec},
	"exec":          {clear: NoExec},
	"nosymfollow":   {set: NoSymFollow},
	"symfollow":     {clear: NoSymFollow},
	"nodiratime":    {set: NoDirAtime},
	"diratime":      {clear: NoDirAtime},
	"noatime":       {set: NoAtime, clear: StrictAtime},
	"strictatime":   {set: StrictAtime, clear: NoAtime},
	"relatime":      {clear: atime},
	"atime":         {clear: NoAtime},
	"norelatime":    {},
	"nostrictatime": {clear: StrictAtime},
}
