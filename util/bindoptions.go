package util

import (
	"strings"

	"github.com/volumekit/volumekit/mount"
)

// flagNegatives are the options that clear a flag.
var flagNegatives = []struct {
	flag mount.Flags
	name string
}{
	{mount.NoSUID, "suid"},
	{mount.NoDev, "dev"},
	{mount.NoExec, "exec"},
	{mount.NoSymFollow, "symfollow"},
	{mount.NoDirAtime, "diratime"},
	{mount.NoAtime | mount.StrictAtime, "relatime"},
}

// BindOptions returns options with which a bind mount has just these flags, whatever the
// flags are there where it comes from; but not "ro", which a specification says in a
// field of its own. "suid" and "dev" among them need a mounter that allows them.
func BindOptions(flags, there mount.Flags) []string {
	options := strings.Split(flags.String(), ",")[1:] // the first is "ro" or "rw"
	for _, no := range flagNegatives {
		if flags&no.flag == 0 {
			options = append(options, no.name)
		}
	}
	// A pod may still ask for read-only, unless somebody had to say "rw".
	if there&^flags&mount.ReadOnly != 0 {
		options = append(options, "rw")
	}
	return options
}
