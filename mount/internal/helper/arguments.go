package helper

import (
	"strings"

	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
)

// optionsFor returns the options for a helper: the flags that every helper accepts, and the
// options for the file system. The flags make the helper's private mount safe before it is
// attached at the target.
func optionsFor(o options.Options) []string {
	common := options.ReadOnly | options.NoSUID | options.NoDev | options.NoExec
	return append((o.Set & common).Names(), o.Data...)
}

// argumentsFor returns the arguments of a helper that mounts a spec at a place. Helpers expect
// operands before options, and do not understand "--".
func argumentsFor(helper, place string, s *spec.Spec, list []string) []string {
	args := []string{helper, s.Source, place}
	if len(list) > 0 {
		args = append(args, "-o", strings.Join(list, ","))
	}
	if strings.Contains(s.FSType, ".") && !strings.HasSuffix(helper, "mount."+s.FSType) {
		args = append(args, "-t", s.FSType)
	}
	return args
}
