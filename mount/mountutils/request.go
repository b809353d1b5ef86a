package mountutils

import (
	"slices"
	"strconv"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/internal/optionlist"
	"github.com/volumekit/volumekit/mount"
)

// mountArgs are the arguments of a mount call of mount-utils.
type mountArgs struct {
	source, target, fsType    string
	options, sensitive, flags []string
}

// parsedOptions are the options of a mount call, by their kinds.
type parsedOptions struct {
	bind, rbind, remount bool
	propagation          mount.Propagation
	propagates           bool // an option sets the propagation
	options              []string
	secrets              []mount.Secret
}

// parse sorts the options by their kinds.
func (o mountArgs) parse() (r parsedOptions, err error) {
	if err := r.addFlags(o.flags); err != nil {
		return parsedOptions{}, err
	}
	for _, option := range splitOptions(o.options) {
		r.add(option)
	}
	for _, option := range splitOptions(o.sensitive) {
		r.addSensitive(option)
	}
	return r, nil
}

// propagates reports whether an option sets the propagation.
func (o mountArgs) propagates() bool {
	r, err := o.parse()
	return err == nil && r.propagates
}

// request returns the request for the call. It makes no system call.
func (o mountArgs) request() (mount.Request, error) {
	r, err := o.parse()
	if err != nil {
		return mount.Request{}, err
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
		req.DeviceFile, req.Submounts = true, mount.HideSubmounts
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

// propagations are options of mount(8). The recursive ones differ from the others for mounts
// below the source, which a request treats alike.
var propagations = map[string]mount.Propagation{
	"private": mount.PropagationPrivate, "rprivate": mount.PropagationPrivate,
	"slave": mount.PropagationSlave, "rslave": mount.PropagationSlave,
	"shared": mount.PropagationShared, "rshared": mount.PropagationShared,
}

// add records an option by its kind.
func (r *parsedOptions) add(option string) {
	if !r.addKind(option) {
		r.options = append(r.options, option)
	}
}

// addKind records an option that selects the kind of mount.
func (r *parsedOptions) addKind(option string) bool {
	propagation, is := propagations[option]
	switch {
	case is:
		r.propagation, r.propagates = propagation, true
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

// addSensitive records a secret option of the file system. Flags of a mount are no secrets.
func (r *parsedOptions) addSensitive(option string) {
	if r.addKind(option) {
		return
	}
	if !isFlag(option) {
		r.secrets = append(r.secrets, mount.NewSecret(option))
		return
	}
	// The mount table shows flags; comments are for nobody.
	if o, err := mount.ParseOptions([]string{option}, allowAll); err == nil && o.Set|o.Clear != 0 && !slices.Contains(r.options, option) {
		r.options = append(r.options, option)
	}
}

// allowAll permits all known options.
var allowAll = mount.Allow{SUID: true, Dev: true, Context: true}

// isFlag reports whether an option belongs to the mount, or has no effect.
func isFlag(option string) bool {
	o, err := mount.ParseOptions([]string{option}, allowAll)
	return err == nil && len(o.Data) == 0
}

// flagsAmong drops the options of file systems: callers pass a bind mount the options of the
// volume that it shows. Unknown words stay, to be refused.
func flagsAmong(options []string) []string {
	return slices.DeleteFunc(slices.Clone(options), func(option string) bool {
		o, err := mount.ParseOptions([]string{option}, allowAll)
		return err == nil && len(o.Data) > 0
	})
}

// splitOptions splits each element as mount(8) does.
func splitOptions(options []string) (all []string) {
	for _, element := range options {
		all = append(all, optionlist.Split(element)...)
	}
	return all
}

// flagOptions maps flags of mount(8) to their options.
var flagOptions = map[string]string{
	"-B": "bind", "--bind": "bind", "-R": "rbind", "--rbind": "rbind",
	"-r": "ro", "--read-only": "ro", "-w": "rw", "--rw": "rw", "--read-write": "rw",
	"--make-private": "private", "--make-rprivate": "rprivate",
	"--make-slave": "slave", "--make-rslave": "rslave",
	"--make-shared": "shared", "--make-rshared": "rshared",
}

// idleFlags concern the program mount(8): its table, its helpers, its output.
var idleFlags = []string{
	"-n", "--no-mtab", "-i", "--internal-only", "-c", "--no-canonicalize",
	"-s", "-v", "--verbose", "--onlyonce",
}

func (r *parsedOptions) addFlags(flags []string) error {
	for i, flag := range flags {
		option, ok := flagOptions[flag]
		switch {
		case ok:
			r.add(option)
		case !slices.Contains(idleFlags, flag):
			return &mount.InputError{
				Field: "MountFlags[" + strconv.Itoa(i) + "]", Value: input.Shorten(flag), Reason: "this flag of mount(8) has no meaning here",
			}
		}
	}
	return nil
}
