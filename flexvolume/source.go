package flexvolume

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A source is the validated specification of a volume.
type source struct {
	name     string // see volume.Spec.Name
	driver   string
	fsType   string
	options  map[string]string
	readOnly bool
	secret   *v1.SecretReference // in the pod's namespace if it has none; nil: no Secret
}

// isFlexvolume reports whether exactly one source of the specification is set, and is a Flexvolume.
func isFlexvolume(spec *volume.Spec) bool {
	if spec == nil || (spec.Volume == nil) == (spec.PersistentVolume == nil) {
		return false
	}
	return spec.Volume != nil && spec.Volume.FlexVolume != nil ||
		spec.PersistentVolume != nil && spec.PersistentVolume.Spec.FlexVolume != nil
}

// sourceOf validates a specification. The error is a [*field.Error]; that of a block volume wraps
// volume.ErrNotSupported.
func (p *Plugin) sourceOf(spec *volume.Spec) (source, error) {
	if err := spec.Validate(); err != nil {
		return source{}, err
	}
	if !isFlexvolume(spec) {
		return source{}, field.Required(field.NewPath("spec", "flexVolume"), "not a volume of a Flexvolume driver")
	}
	s := source{name: spec.Name(), driver: spec.Driver(), readOnly: spec.IsReadOnly()}
	at := field.NewPath("spec", "volume", "flexVolume")
	if inline := spec.Volume; inline != nil {
		s.fsType, s.options = inline.FlexVolume.FSType, inline.FlexVolume.Options
		if ref := inline.FlexVolume.SecretRef; ref != nil {
			s.secret = &v1.SecretReference{Name: ref.Name}
		}
	} else {
		at = field.NewPath("spec", "persistentVolume", "spec", "flexVolume")
		flex := spec.PersistentVolume.Spec.FlexVolume
		s.fsType, s.options, s.secret = flex.FSType, flex.Options, flex.SecretRef
	}
	if spec.IsBlock() {
		return source{}, fmt.Errorf("block volume %s of a Flexvolume driver: %w", s.name, volume.ErrNotSupported)
	}
	if options := spec.MountOptions(); len(options) > 0 {
		return source{}, volume.Invalid(field.NewPath("spec", "persistentVolume", "spec", "mountOptions").Index(0), options[0], "Flexvolume drivers receive no mount options")
	}
	return s, s.check(at, p.config.Driver)
}

func (s source) check(at *field.Path, driver string) error {
	if s.driver != driver {
		return volume.Invalid(at.Child("driver"), s.driver, "must be "+driver)
	}
	if !isPlain(s.fsType) {
		return volume.Invalid(at.Child("fsType"), s.fsType, "must have no blanks and no control characters")
	}
	for key, value := range s.options {
		if reason := checkOption(key, value); reason != "" {
			return volume.Invalid(at.Child("options"), key, reason)
		}
	}
	if size := s.sizeOfOptions(); size > maxOptions {
		return volume.Invalid(at.Child("options"), fmt.Sprintf("%d bytes", size), fmt.Sprintf("must have at most %d bytes", maxOptions))
	}
	if s.secret != nil && s.secret.Name == "" {
		return field.Required(at.Child("secretRef", "name"), "a reference needs a name")
	}
	return nil
}

// maxOptions limits the options of a volume, which a call passes as a part of one argument, see maxArgument.
const maxOptions = 64 << 10

func (s source) sizeOfOptions() (size int) {
	for key, value := range s.options {
		size += len(key) + len(value)
	}
	return size
}

// checkOption returns the reason against an option, or "". An error has no values: users write passwords there.
func checkOption(key, value string) string {
	switch namespace, _, _ := strings.Cut(key, "/"); {
	case isReserved(namespace):
		return "the domains kubernetes.io and k8s.io are reserved"
	case !utf8.ValidString(key), !utf8.ValidString(value):
		return "key and value must be valid UTF-8"
	}
	return ""
}

// isReserved reports whether the part of a key before its first "/" is a reserved domain, as the API server does.
func isReserved(namespace string) bool {
	domain := "." + strings.ToLower(namespace)
	return strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")
}

// isPlain reports whether a text is valid UTF-8 that programs can pass on as one word.
func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}
