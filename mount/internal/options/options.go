package options

// Options are parsed options.
type Options struct {
	// Set and Clear are the flags to set and to clear. A bind mount inherits the other flags
	// from its source; on a mount of a file system they are clear.
	Set, Clear Flags
	// Data are the options for the file system, in the given order.
	Data []string
}

// Exactly returns options that set these flags and clear all others.
func Exactly(flags Flags) Options { return Options{Set: flags, Clear: all &^ flags} }

// ReadOnly reports whether the options ask for a read-only mount.
func (o Options) ReadOnly() bool { return o.Set&ReadOnly != 0 }

// Apply returns the flags of a mount after the change that the options ask for.
func (o Options) Apply(flags Flags) Flags {
	if (o.Set|o.Clear)&atime != 0 {
		flags &^= atime
	}
	return flags&^o.Clear | o.Set
}

// add puts a checked option into its field.
func (o *Options) add(option string) {
	if change, ok := flagOptions[option]; ok {
		o.Set |= change.set
		o.Clear |= change.clear
		return
	}
	if !isIgnored(option) {
		o.Data = append(o.Data, option)
	}
}
