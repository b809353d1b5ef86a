package mount

import (
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
)

// Options are the parsed options of a [Request].
type Options struct {
	// Set and Clear are the flags that the options name, and the added flags nosuid and
	// nodev. A bind mount inherits its other flags from the source's mount; on a mount of a
	// file system they are clear.
	Set, Clear Flags
	// Data are the options for the file system, in the given order and with their quotes.
	Data []string
}

// ReadOnly reports whether the options ask for a read-only mount.
func (o Options) ReadOnly() bool { return o.internal().ReadOnly() }

// Apply returns the flags of a mount after the change that the options ask for.
func (o Options) Apply(flags Flags) Flags {
	return Flags(o.internal().Apply(options.Flags(flags)))
}

// internal returns the options as the internal packages have them.
func (o Options) internal() options.Options {
	return options.Options{Set: options.Flags(o.Set), Clear: options.Flags(o.Clear), Data: o.Data}
}

func publicOptions(o options.Options) Options {
	return Options{Set: Flags(o.Set), Clear: Flags(o.Clear), Data: o.Data}
}

// ParseOptions parses mount(8) options. An option that is a flag of the mount becomes a
// flag; the others are for the file system. Options for the readers of fstab ("defaults",
// "_netdev", "nofail", "x-systemd.automount", "comment=x", ...) have no effect. "nosuid" and
// "nodev" are added unless allow grants the opposite.
//
// It refuses, with an [*InputError] that names the option:
//   - an option that is empty, or contains NUL, newline, a quote without an end, or a comma; only
//     an SELinux label may have commas, in quotes: context="a:b:c:s0:c127,c456";
//   - an option that asks for another kind of mount ("bind", "remount", "loop", "X-mount.mkdir", ...);
//   - an option that allow does not grant;
//   - an option that contradicts another one.
func ParseOptions(list []string, allow Allow) (Options, error) {
	o, err := options.Parse(list, options.Allow(allow))
	return publicOptions(o), publicInputError("", err)
}

// Parse checks the request and returns its parsed options. It makes no system call. Every
// error is an [*InputError]. Besides the options that [ParseOptions] refuses, it refuses
//   - a target that is not an absolute path strictly below "/", or has a ".." in it;
//   - such a source of a bind mount;
//   - an option for the file system in a bind mount, which has no file system of its own;
//   - a file system type that is no word;
//   - a secret that is malformed, or is a flag of the mount.
func (r Request) Parse(allow Allow) (Options, error) {
	s := r.spec()
	err := s.Check(options.Allow(allow))
	return publicOptions(s.Options), publicInputError("", err)
}

// DeviceOptions is for implementations of [Interface], which call it in Mount for a bind mount whose
// source is a device file, with the options that Parse has returned. If Parse has added "nodev",
// the result is without it if DeviceFile is set, and otherwise an [*InputError]. A "nodev" in
// Options stays.
func (r Request) DeviceOptions(o Options) (Options, error) {
	s := r.spec()
	s.Options = o.internal()
	err := s.AdmitDevice()
	return publicOptions(s.Options), publicInputError("", err)
}

// spec returns the request as the internal packages have it.
func (r Request) spec() spec.Spec {
	return spec.Spec{
		Source: r.Source, SourceFile: r.SourceFile, Target: r.Target, FSType: r.FSType,
		List: r.Options, Secrets: internalSecrets(r.Secrets), Stack: r.Stack,
		Submounts: spec.Submounts(r.Submounts), Propagation: spec.Propagation(r.Propagation),
		IDMap: r.IDMap.internal(), Helper: spec.HelperUse(r.Helper), DeviceFile: r.DeviceFile, Remount: r.Remount,
	}
}

// internal returns the map as the internal packages have it.
func (m IDMap) internal() spec.IDMap {
	return spec.IDMap{UIDs: internalRanges(m.UIDs), GIDs: internalRanges(m.GIDs)}
}

func internalRanges(ranges []IDRange) (internal []spec.IDRange) {
	for _, r := range ranges {
		internal = append(internal, spec.IDRange(r))
	}
	return internal
}
