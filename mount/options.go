package mount

import (
	"fmt"
	"path"
	"strings"
)

// Options is what the options of a [Request] mean.
type Options struct {
	// Set and Clear are the flags of the mount that are asked for by name (or
	// added, as nosuid and nodev are). Of a bind mount the others stay as they
	// are where the source is mounted; of a file system they are clear.
	Set, Clear Flags
	// Data are the options left for the file system, in the order given.
	Data []string
}

// ReadOnly reports whether the mount is to be read-only.
func (o Options) ReadOnly() bool { return o.Set&ReadOnly != 0 }

// Apply returns what the options make of the flags that a mount has.
func (o Options) Apply(flags Flags) Flags {
	if (o.Set|o.Clear)&atime != 0 {
		flags &^= atime
	}
	return flags&^o.Clear | o.Set
}

// superOptions are flags of the file system itself: for all of its mounts.
var superOptions = map[string]bool{
	"sync": true, "async": true, "dirsync": true, "lazytime": true,
	"nolazytime": true, "mand": true, "nomand": true,
}

// ignoredOptions speak to fstab's readers; the kernel never sees them.
var ignoredOptions = map[string]bool{
	"defaults": true, "_netdev": true, "nofail": true, "auto": true,
	"noauto": true, "nouser": true, "silent": true, "loud": true,
}

// forbiddenOptions change what a mount is, or speak for someone else.
var forbiddenOptions = map[string]string{
	"bind": "", "rbind": "", "move": "", "remount": "",
	"loop": "", "offset": "", "sizelimit": "", "helper": "", "uhelper": "",
	"user": "", "users": "", "owner": "", "group": "",
	"private": "", "rprivate": "", "slave": "", "rslave": "",
	"shared": "", "rshared": "", "unbindable": "", "runbindable": "",
	"addr": "", "clientaddr": "", "mountaddr": "", "mounthost": "", "source": "",
	"comment": "", "subtype": "",
	"suid":    "set-user-ID files are not allowed here",
	"dev":     "device files are not allowed here",
	"context": notGranted, "fscontext": notGranted,
	"defcontext": notGranted, "rootcontext": notGranted,
	"errors=panic": "a file system must not take the node down",
}

const (
	notForUsers = "this option is not for a request to give"
	notGranted  = "SELinux contexts are not allowed here"
)

// ParseOptions reads mount(8) options. Every one that is a flag of the mount
// becomes a flag, the rest is left for the file system. Options that only speak
// to the readers of fstab ("defaults", "_netdev", "nofail", ...) mean nothing.
//
// Refused, with an [*InputError] that names the option: one that is empty or
// holds a comma, NUL or newline; one that changes what the mount is ("bind",
// "remount", "loop", "x-...", ...) or is not granted by allow; two that
// contradict each other. "nosuid" and "nodev" are added unless allow says
// otherwise.
func ParseOptions(options []string, allow Allow) (Options, error) {
	var o Options
	var seen contradictions
	for i, option := range options {
		field := fmt.Sprintf("Options[%d]", i)
		if err := checkOption(field, option, allow); err != nil {
			return Options{}, err
		}
		if err := seen.add(field, option); err != nil {
			return Options{}, err
		}
		o.add(option)
	}
	if !allow.SUID {
		o.Set |= NoSUID
	}
	if !allow.Dev {
		o.Set |= NoDev
	}
	return o, nil
}

// add files a checked option under what it is.
func (o *Options) add(option string) {
	if change, ok := flagOptions[option]; ok {
		o.Set |= change.set
		o.Clear |= change.clear
		return
	}
	if !ignoredOptions[option] {
		o.Data = append(o.Data, option)
	}
}

// checkOption looks at one option by itself.
func checkOption(field, option string, allow Allow) error {
	key, _, _ := strings.Cut(option, "=")
	switch {
	case key == "":
		return inputError(field, option, "an option has a name")
	case strings.ContainsAny(option, ",\x00\n"):
		return inputError(field, option, "an option holds no comma, NUL or newline")
	case strings.HasPrefix(key, "x-"), strings.HasPrefix(key, "X-"), strings.HasPrefix(key, "smackfs"):
		return inputError(field, option, notForUsers)
	case allow.SUID && option == "suid", allow.Dev && option == "dev":
		return nil
	case allow.Context && forbiddenOptions[key] == notGranted:
		return nil
	}
	reason, forbidden := forbiddenOptions[key]
	if !forbidden {
		reason, forbidden = forbiddenOptions[option]
	}
	if forbidden {
		if reason == "" {
			reason = notForUsers
		}
		return inputError(field, option, reason)
	}
	if _, flag := flagOptions[key]; key != option && (flag || ignoredOptions[key]) {
		return inputError(field, option, "this option takes no value")
	}
	return nil
}

// contradictions remembers the options so far, by what they are about.
type contradictions struct {
	flags []string
	data  map[string]string
}

// add notes an option and fails if an earlier one said otherwise.
func (c *contradictions) add(field, option string) error {
	before := c.before(option)
	if before != "" {
		return inputError(field, option, fmt.Sprintf("contradicts %q", shorten(before)))
	}
	return nil
}

// before returns the earlier option that option contradicts, if there is one.
func (c *contradictions) before(option string) string {
	if change, ok := flagOptions[option]; ok {
		for _, other := range c.flags {
			if change.contradicts(flagOptions[other]) {
				return other
			}
		}
		c.flags = append(c.flags, option)
		return ""
	}
	if c.data == nil {
		c.data = map[string]string{}
	}
	subject := subjectOf(option)
	if other, ok := c.data[subject]; ok && other != option {
		return other
	}
	if subject != "" {
		c.data[subject] = option
	}
	return ""
}

// subjectOf returns what an option of a file system makes a statement about: two
// different options on one subject contradict each other. Options that may be
// repeated ("lowerdir+=") have none.
func subjectOf(option string) string {
	key, _, hasValue := strings.Cut(option, "=")
	switch {
	case strings.HasSuffix(key, "+"):
		return ""
	case key == "async":
		return "sync"
	case !hasValue:
		return strings.TrimPrefix(key, "no")
	}
	return key
}

// Parse checks the request, reads its options and returns what they mean. It
// changes nothing and asks the system nothing. Every failure is an
// [*InputError]: besides those of [ParseOptions], a target that is not an
// absolute path strictly below "/" or has a ".." in it; the same for the source
// of a bind mount; an option for the file system in a bind mount, which has
// none of its own; a file system type that is no word; a secret that is
// malformed or is a flag of the mount.
func (r Request) Parse(allow Allow) (Options, error) {
	if err := checkPath("Target", r.Target); err != nil {
		return Options{}, err
	}
	if r.Remount {
		return r.parseRemount(allow)
	}
	if err := r.checkTree(); err != nil {
		return Options{}, err
	}
	if strings.ContainsRune(r.Source, 0) {
		return Options{}, inputError("Source", r.Source, "a source holds no NUL")
	}
	o, err := ParseOptions(r.Options, allow)
	if err != nil {
		return Options{}, err
	}
	if r.FSType == "" {
		return o, r.checkBind(o)
	}
	if r.SourceFile != nil {
		return Options{}, inputError("SourceFile", r.SourceFile.Name(), "only a bind mount has one")
	}
	if strings.ContainsAny(r.FSType, " \t\n,/\x00") {
		return Options{}, inputError("FSType", r.FSType, "not the name of a file system type")
	}
	return o, r.checkSecrets(allow)
}

func (r Request) checkBind(o Options) error {
	if r.SourceFile == nil || r.Source != "" {
		if err := checkPath("Source", r.Source); err != nil {
			return err
		}
	}
	if err := r.refuseData(o); err != nil {
		return err
	}
	if len(r.Secrets) > 0 {
		return inputError("Secrets[0]", redacted, "a bind mount has no options of the file system")
	}
	return nil
}

// refuseData names the first option that is left for the file system.
func (r Request) refuseData(o Options) error {
	for i, option := range r.Options {
		if len(o.Data) > 0 && option == o.Data[0] {
			return inputError(fmt.Sprintf("Options[%d]", i), option, bindReason(option))
		}
	}
	return nil
}

func bindReason(option string) string {
	if superOptions[option] {
		return "belongs to the file system, a bind mount cannot change it"
	}
	return "not an option of a bind mount"
}

func (r Request) checkSecrets(allow Allow) error {
	var seen contradictions
	for i, option := range r.Options {
		_ = seen.add(fmt.Sprintf("Options[%d]", i), option) // ParseOptions found none
	}
	for i, secret := range r.Secrets {
		field := fmt.Sprintf("Secrets[%d]", i)
		option := secret.Reveal()
		if checkOption(field, option, allow) != nil {
			return inputError(field, redacted, "not an option that a request may give")
		}
		if _, isFlag := flagOptions[option]; isFlag || ignoredOptions[option] {
			return inputError(field, redacted, "no option of the file system")
		}
		if seen.add(field, option) != nil {
			return inputError(field, redacted, "contradicts another option")
		}
	}
	return nil
}

// checkPath accepts an absolute path strictly below the root.
func checkPath(field, p string) error {
	if err := checkAbsolute(field, p); err != nil {
		return err
	}
	if path.Clean(p) == "/" {
		return inputError(field, p, `the path must be below "/"`)
	}
	return nil
}

// checkAbsolute accepts an absolute path without "..".
func checkAbsolute(field, p string) error {
	switch {
	case p == "":
		return inputError(field, p, "a path is needed")
	case strings.ContainsRune(p, 0):
		return inputError(field, p, "a path holds no NUL")
	case !strings.HasPrefix(p, "/"):
		return inputError(field, p, "the path must be absolute")
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return inputError(field, p, `the path must not contain ".."`)
		}
	}
	return nil
}
