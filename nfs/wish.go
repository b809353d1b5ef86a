package nfs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A wish holds the parsed mount options of a volume.
type wish struct {
	generic []string // flags of mounts, and options for the readers of fstab
	data    []string // the options of the file system, but for the version
	version string   // the fixed version: "", "3", "4", "4.0", "4.1", "4.2"
	minor   string   // the version's second number, where it is an option of its own
	said    map[string]string
}

// mostOptions exceeds the number of existing options.
const mostOptions = 128

// parseOptions parses the mount options of a specification. Its errors are of type
// [*field.Error], at the option.
func parseOptions(spec *volume.Spec) (wish, error) {
	w := wish{said: map[string]string{}}
	options := spec.MountOptions()
	if len(options) > mostOptions {
		return wish{}, field.TooMany(optionField(spec, 0), len(options), mostOptions)
	}
	for i, option := range options {
		if reason := w.add(options[:i], option); reason != "" {
			return wish{}, volume.Invalid(optionField(spec, i), option, reason)
		}
	}
	if w.minor != "" {
		w.version = "4." + w.minor
	}
	return w, nil
}

// optionField returns the field that holds the option with this index of
// [volume.Spec.MountOptions]: one element of the field may hold several options.
func optionField(spec *volume.Spec, i int) *field.Path {
	at := field.NewPath("spec", "persistentVolume")
	for n, written := range spec.PersistentVolume.Spec.MountOptions {
		one := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{MountOptions: []string{written}}}
		if i -= len(volume.NewSpecFromPersistentVolume(one, false).MountOptions()); i < 0 {
			return at.Child("spec", "mountOptions").Index(n)
		}
	}
	return at.Child("metadata", "annotations").Key(v1.MountOptionAnnotation)
}

// add records an option, or returns its fault given the options before it. It drops "bg".
func (w *wish) add(before []string, option string) string {
	// The mounter itself refuses options that it does not allow.
	granted := mount.Allow{SUID: true, Dev: true, Context: true}
	parsed, err := mount.ParseOptions(slices.Concat(before, []string{option}), granted)
	if refused := (*mount.InputError)(nil); errors.As(err, &refused) {
		return refused.Reason
	}
	if !slices.Contains(parsed.Data, option) {
		w.generic = append(w.generic, option)
		return ""
	}
	if reason := check(option); reason != "" || option == "bg" {
		return reason // "bg" asks for more attempts after a failure: they are the caller's
	}
	return w.addData(option)
}

func (w *wish) addData(option string) string {
	key, value, _ := strings.Cut(option, "=")
	subject := subjects[key]
	if earlier := w.said[subject]; subject != "" && earlier != "" && meaning(earlier) != meaning(option) {
		return fmt.Sprintf("contradicts %q", earlier)
	}
	switch {
	case subject == "version":
		w.version = meaning(option)
	case key == "minorversion":
		w.minor = value
	case !slices.Contains(w.data, option):
		w.data = append(w.data, option)
	}
	if subject != "" {
		w.said[subject] = option
	}
	if w.minor != "" && w.version != "" && w.version != "4" && w.version != "4."+w.minor {
		return fmt.Sprintf("version %s and minor version %s contradict each other", w.version, w.minor)
	}
	return ""
}

// meaning returns the value of an option for its subject: the version "4.2" of
// "vers=4.2", "nfsvers=4.2" and "v4.2"; the protocol "tcp" of "tcp" and "proto=tcp".
func meaning(option string) string {
	if _, value, ok := strings.Cut(option, "="); ok {
		return value
	}
	if subjects[option] == "version" {
		return option[1:]
	}
	return option
}

// keyOf returns the name of an option.
func keyOf(option string) string {
	key, _, _ := strings.Cut(option, "=")
	return key
}

// checkReadOnly refuses the option "rw" of a read-only volume: one of the two is a
// mistake.
func (w wish) checkReadOnly(spec *volume.Spec) error {
	options := spec.MountOptions()
	if i := slices.Index(options, "rw"); i >= 0 && spec.IsReadOnly() {
		return volume.Invalid(optionField(spec, i), "rw", "contradicts the volume, which is read-only")
	}
	return nil
}

// kerberos reports whether the mount needs keys, which other programs provide.
func (w wish) kerberos() bool {
	return slices.ContainsFunc(w.data, func(option string) bool {
		return strings.HasPrefix(option, "sec=") && strings.Contains(option, "krb5")
	})
}

// isComplete reports whether a mount by version 3 has every option that a program would
// negotiate.
func (w wish) isComplete() bool {
	return slices.Contains(w.data, "nolock") &&
		slices.ContainsFunc(w.data, func(option string) bool { return strings.HasPrefix(option, "mountport=") })
}

// forKernel returns the options for the kernel's client: without those addressed to the
// program, and with the version only if both of its numbers are fixed.
func (w wish) forKernel() []string {
	options := slices.DeleteFunc(slices.Clone(w.data), func(option string) bool {
		return slices.Contains([]string{"fg", "retry", "intr", "nointr"}, keyOf(option))
	})
	if w.version != "" && w.version != "4" {
		options = append(options, "vers="+w.version)
	}
	return slices.Concat(w.generic, options)
}

// forProgram returns the options for mount.nfs.
func (w wish) forProgram() []string {
	options := slices.Concat(w.generic, w.data)
	if w.version != "" {
		options = append(options, "vers="+w.version)
	}
	return options
}
