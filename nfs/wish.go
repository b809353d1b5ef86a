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

// A wish is how a volume is to be mounted, as its options have it.
type wish struct {
	generic []string // flags of a mount of whatever file system
	data    []string // the other options, but for the version
	version string   // the one that is fixed: "", "3", "4", "4.0", "4.1", "4.2"
	minor   string   // the second number of it, where that is an option of its own
	said    map[string]string
}

// mostOptions is more than there are.
const mostOptions = 128

// parseOptions reads the mount options of a specification. Its errors are of type
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

// optionField is where the option with this index of [volume.Spec.MountOptions] is
// written.
func optionField(spec *volume.Spec, i int) *field.Path {
	at := field.NewPath("spec", "persistentVolume")
	if i < len(spec.PersistentVolume.Spec.MountOptions) {
		return at.Child("spec", "mountOptions").Index(i)
	}
	return at.Child("metadata", "annotations").Key(v1.MountOptionAnnotation)
}

// add files an option, or returns what is wrong with it after the ones before.
func (w *wish) add(before []string, option string) string {
	// Whether the mounter grants them, it says itself.
	granted := mount.Allow{SUID: true, Dev: true}
	parsed, err := mount.ParseOptions(slices.Concat(before, []string{option}), granted)
	if refused := (*mount.InputError)(nil); errors.As(err, &refused) {
		return refused.Reason
	}
	if !slices.Contains(parsed.Data, option) {
		w.generic = append(w.generic, option)
		return ""
	}
	if reason := check(option); reason != "" {
		return reason
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

// meaning returns what an option says on its subject: a version is "4.2" of
// "vers=4.2", "nfsvers=4.2" and "v4.2"; a protocol "tcp" of "tcp" and "proto=tcp".
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

// checkReadOnly refuses an "rw" of a volume that is read-only: one of the two is a
// mistake.
func (w wish) checkReadOnly(spec *volume.Spec) error {
	options := spec.MountOptions()
	if i := slices.Index(options, "rw"); i >= 0 && spec.IsReadOnly() {
		return volume.Invalid(optionField(spec, i), "rw", "contradicts the volume, which is read-only")
	}
	return nil
}

// kerberos reports whether the mount takes keys, which programs provide.
func (w wish) kerberos() bool {
	return slices.ContainsFunc(w.data, func(option string) bool {
		return strings.HasPrefix(option, "sec=") && strings.Contains(option, "krb5")
	})
}

// alone reports whether a mount by version 3 says all that a program would find out.
func (w wish) alone() bool {
	return slices.Contains(w.data, "nolock") &&
		slices.ContainsFunc(w.data, func(option string) bool { return strings.HasPrefix(option, "mountport=") })
}

// forKernel returns the options for the kernel's client: without the ones that
// speak to the program, and the version only if it is fixed to the last number.
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
