package options

import "strings"

// Flags are the properties of a mount apart from its file system.
type Flags uint32

// The flags have the names of their mount(8) options. A mount with neither NoAtime nor
// StrictAtime is relatime, the kernel's default.
const (
	ReadOnly    Flags = 1 << iota // ro
	NoSUID                        // nosuid
	NoDev                         // nodev
	NoExec                        // noexec
	NoSymFollow                   // nosymfollow, Linux 5.10
	NoDirAtime                    // nodiratime
	NoAtime                       // noatime
	StrictAtime                   // strictatime

	all = 1<<iota - 1
)

// atime is the only property of a mount with three values.
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
	names := f.Names()
	if f&ReadOnly == 0 {
		names = append([]string{"rw"}, names...)
	}
	return strings.Join(names, ",")
}

// Names returns the option of each flag.
func (f Flags) Names() []string {
	var names []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// A flagChange is the effect of an option on the flags.
type flagChange struct{ set, clear Flags }

func (c flagChange) contradicts(d flagChange) bool {
	return c.set&d.clear|c.clear&d.set != 0
}

// flagOptions has the options that change flags. "norelatime" and "nostrictatime" only
// revert a value that is not the default.
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

// ReadTableFlags returns the flags that a line of the mount table lists as options. The
// kernel prints "relatime", and nothing for strictatime.
func ReadTableFlags(options []string) Flags {
	flags := StrictAtime
	for _, option := range options {
		switch option {
		case "relatime", "noatime":
			flags &^= StrictAtime
		}
		flags |= flagOptions[option].set
	}
	return flags
}
