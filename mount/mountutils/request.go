package mountutils

import (
	"slices"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/mount"
)

// An order is what a caller of mount-utils asks for.
type order struct {
	source, target, fsType    string
	options, sensitive, flags []string
}

// A reading is what the options of an order mean.
type reading struct {
	bind, rbind, remount bool
	propagation          mount.Propagation
	options              []string
	secrets              []mount.Secret
}

// request reads the order. It asks the system nothing.
func (o order) request() (mount.Request, error) {
	var r reading
	if err := r.addFlags(o.flags); err != nil {
		return mount.Request{}, err
	}
	for _, option := range splitOptions(o.options) {
		r.add(option)
	}
	for _, option := range splitOptions(o.sensitive) {
		r.addSensitive(option)
	}
	req := mount.Request{
		Source: o.source, Target: o.target, FSType: o.fsType,
		Options: r.options, Secrets: r.secrets, Propagation: r.propagation,
	}
	switch {
	case r.remount:
		req.Remount = true
		req.Source, req.FSType = "", ""
		if r.bind || r.rbind {
			req.Options, req.Secrets = flagsAmong(req.Options), nil
		}
	case r.bind, r.rbind:
		req.FSType, req.Options, req.Secrets = "", flagsAmong(req.Options), nil
		req.Submounts = mount.HideSubmounts
		if r.rbind {
			req.Submounts = mount.IncludeSubmounts
		}
	case o.fsType == "" || o.fsType == "auto":
		return mount.Request{}, &mount.InputError{
			Field: "FSType", Value: o.fsType, Reason: `a type is needed: none is guessed (or the option "bind")`,
		}
	}
	return req, nil
}

// propagations are options of mount(8); the recursive ones differ from the others
// where there are mounts below the source, which a request treats alike.
var propagations = map[string]mount.Propagation{
	"private": mount.PropagationPrivate, "rprivate": mount.PropagationPrivate,
	"slave": mount.PropagationSlave, "rslave": mount.PropagationSlave,
	"shared": mount.PropagationShared, "rshared": mount.PropagationShared,
}

// add files an option under what it is.
func (r *reading) add(option string) {
	if r.addWord(option) {
		return
	}
	// For systemd and fstab's other readers.
	if !strings.HasPrefix(option, "x-") && !strings.HasPrefix(option, "comment=") {
		r.options = append(r.options, option)
	}
}

// addWord takes the options that say what kind of mount it is.
func (r *reading) addWord(option string) bool {
	propagation, is := propagations[option]
	switch {
	case is:
		r.propagation = propagation
	case option == "bind":
		r.bind = true
	case option == "rbind":
		r.rbind = true
	case option == "remount":
		r.remount = true
	default:
		return false
	}
	return true
}

// addSensitive keeps secret what the file system is told. Flags of a mount are no
// secrets: everybody sees them in the mount table.
func (r *reading) addSensitive(option string) {
	if r.addWord(option) {
		return
	}
	if !isFlag(option) {
		r.secrets = append(r.secrets, mount.NewSecret(option))
		return
	}
	if !slices.Contains(r.options, option) {
		r.options = append(r.options, option)
	}
}

// everything lets all options pass that are any.
var everything = mount.Allow{SUID: true, Dev: true, Context: true}

// isFlag reports whether an option is one of the mount, or means nothing.
func isFlag(option string) bool {
	o, err := mount.ParseOptions([]string{option}, everything)
	return err == nil && len(o.Data) == 0
}

// flagsAmong drops the options that are for a file system: callers give a bind
// mount the options of the volume that it shows. What is no option stays, to be
// refused.
func flagsAmong(options []string) []string {
	return slices.DeleteFunc(slices.Clone(options), func(option string) bool {
		o, err := mount.ParseOptions([]string{option}, everything)
		return err == nil && len(o.Data) > 0
	})
}

// splitOptions takes apart what mount(8) would: elements may hold several options
// with commas between them, but not within double quotes.
func splitOptions(options []string) []string {
	var all []string
	for _, element := range options {
		quoted := false
		all = append(all, strings.FieldsFunc(element, func(r rune) bool {
			if r == '"' {
				quoted = !quoted
			}
			return r == ',' && !quoted
		})...)
	}
	return all
}

// flagOptions are the flags of mount(8) that are options, too.
var flagOptions = map[string]string{
	"-B": "bind", "--bind": "bind", "-R": "rbind", "--rbind": "rbind",
	"-r": "ro", "--read-only": "ro", "-w": "rw", "--rw": "rw", "--read-write": "rw",
	"--make-private": "private", "--make-rprivate": "rprivate",
	"--make-slave": "slave", "--make-rslave": "rslave",
	"--make-shared": "shared", "--make-rshared": "rshared",
}

// idleFlags are about the program mount(8): its table, its helpers, its output.
var idleFlags = []string{
	"-n", "--no-mtab", "-i", "--internal-only", "-c", "--no-canonicalize",
	"-s", "-v", "--verbose", "--onlyonce",
}

func (r *reading) addFlags(flags []string) error {
	for i, flag := range flags {
		option, ok := flagOptions[flag]
		switch {
		case ok:
			r.add(option)
		case !slices.Contains(idleFlags, flag):
			return &mount.InputError{
				Field: "MountFlags[" + strconv.Itoa(i) + "]", Value: shorten(flag), Reason: "this flag of mount(8) has no meaning here",
			}
		}
	}
	return nil
}

// shorten keeps hostile text from filling a log.
func shorten(s string) string {
	const limit = 128
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
