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

// BindOptions returns options that give a bind mount exactly these flags, for any flags of
// its source (there). It never returns "ro", which a specification says in a
// field of its own. "suid" and "dev" require a mounter that allows them.
func BindOptions(flags, there mount.Flags) []string {
	options := strings.Split(flags.String(), ",")[1:] // without the first, "ro" or "rw"
	for _, no := range flagNegatives {
		if flags&no.flag == 0 {
			options = append(options, no.name)
		}
	}
	// "rw" only to override a read-only source: without it a pod may still choose read-only.
	if there&^flags&mount.ReadOnly != 0 {
		options = append(options, "rw")
	}
	return options
}
