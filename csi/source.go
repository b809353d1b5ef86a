package csi

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/volumekit/volumekit/csi/internal/accessmode"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A source is the validated specification of a volume.
type source struct {
	spec       *volume.Spec
	inline     *v1.CSIVolumeSource           // of a volume in a pod
	persistent *v1.CSIPersistentVolumeSource // of a persistent volume
	name       string                        // see volume.Spec.Name
	driver     string
	handle     string // empty for an inline volume until its pod is known
	mode       v1.PersistentVolumeAccessMode
	fsType     string
	options    []string // mount options
	readOnly   bool
	attributes map[string]string
}

func sourcesOf(spec *volume.Spec) (inline *v1.CSIVolumeSource, persistent *v1.CSIPersistentVolumeSource) {
	switch {
	case spec == nil || spec.Volume != nil && spec.PersistentVolume != nil:
	case spec.Volume != nil:
		inline = spec.Volume.CSI
	case spec.PersistentVolume != nil:
		persistent = spec.PersistentVolume.Spec.CSI
	}
	return inline, persistent
}

// sourceOf validates a specification. The error is a *field.Error.
func sourceOf(spec *volume.Spec) (source, error) {
	if err := spec.Validate(); err != nil {
		return source{}, err
	}
	inline, persistent := sourcesOf(spec)
	s := source{spec: spec, inline: inline, persistent: persistent, name: spec.Name(), mode: v1.ReadWriteOnce, readOnly: spec.IsReadOnly()}
	switch {
	case inline != nil:
		at := field.NewPath("spec", "volume", "csi")
		s.driver, s.attributes = inline.Driver, inline.VolumeAttributes
		if inline.FSType != nil {
			s.fsType = *inline.FSType
		}
		return s, s.check(at)
	case persistent != nil:
		at := field.NewPath("spec", "persistentVolume", "spec")
		s.driver, s.handle, s.attributes = persistent.Driver, persistent.VolumeHandle, persistent.VolumeAttributes
		s.fsType, s.options = persistent.FSType, spec.PersistentVolume.Spec.MountOptions
		if modes := spec.PersistentVolume.Spec.AccessModes; len(modes) > 0 {
			s.mode = modes[0] // as a kubelet: a call has one mode
		}
		if err := checkHandle(at.Child("csi", "volumeHandle"), s.handle); err != nil {
			return source{}, err
		}
		if err := accessmode.Check(at.Child("accessModes").Index(0), s.mode); err != nil {
			return source{}, err
		}
		if err := checkOptions(at.Child("mountOptions"), s.options); err != nil {
			return source{}, err
		}
		return s, s.check(at.Child("csi"))
	}
	return source{}, field.Required(field.NewPath("spec", "csi"), "not a volume of a CSI driver")
}

// mountedSourceOf is sourceOf for a volume that is a directory.
func mountedSourceOf(spec *volume.Spec) (source, error) {
	s, err := sourceOf(spec)
	if err == nil && spec.IsBlock() {
		err = fmt.Errorf("mount block volume %s, which is mapped: %w", s.name, volume.ErrNotSupported)
	}
	return s, err
}

// blockSourceOf is sourceOf for a volume that is a device.
func blockSourceOf(spec *volume.Spec) (source, error) {
	s, err := sourceOf(spec)
	switch {
	case err != nil:
		return s, err
	case !spec.IsBlock():
		return s, fmt.Errorf("map volume %s, which is mounted: %w", s.name, volume.ErrNotSupported)
	}
	return s, checkBlockName(field.NewPath("spec", "persistentVolume", "metadata", "name"), s.name)
}

// isReadOnlyForKubelet reports whether a kubelet publishes the volume read-only.
func (s source) isReadOnlyForKubelet() bool {
	if s.inline != nil {
		return s.readOnly
	}
	return s.spec.ReadOnly
}

func (s source) check(at *field.Path) error {
	if err := checkDriverName(at.Child("driver"), s.driver); err != nil {
		return err
	}
	if err := checkText(at.Child("fsType"), s.fsType, maxText); err != nil {
		return err
	}
	for key, value := range s.attributes {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return volume.Invalid(at.Child("volumeAttributes"), key, "key and value must be valid UTF-8")
		}
	}
	return nil
}

const (
	maxText    = 128     // bytes, as the specification limits texts
	maxHandle  = 4 << 10 // bytes: more than the specification allows, since drivers use more
	maxOptions = 4 << 10 // bytes of all mount options, by the specification
)

// driverName is the form of names of the specification: at most 63 letters, digits, dots and dashes,
// with a letter or a digit at both ends.
var driverName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$`)

// checkDriverName refuses names that the specification does not allow, and the name of the directory
// of block devices, which is beside those of drivers.
func checkDriverName(at *field.Path, name string) error {
	switch {
	case name == "":
		return field.Required(at, "a CSI volume has a driver")
	case !driverName.MatchString(name):
		return volume.Invalid(at, name, "must have at most 63 letters, digits, dots and dashes, with a letter or digit at both ends")
	case name == devicesDir:
		return volume.Invalid(at, name, "is the name of a directory of the plugin")
	}
	return nil
}

func checkHandle(at *field.Path, handle string) error {
	if handle == "" {
		return field.Required(at, "a persistent volume has a handle")
	}
	return checkText(at, handle, maxHandle)
}

// checkText refuses texts that a driver or a file system could misread.
func checkText(at *field.Path, text string, most int) error {
	if reason := faultOf(text, most); reason != "" {
		return volume.Invalid(at, text, reason)
	}
	return nil
}

// faultOf returns why a text is refused, or "".
func faultOf(text string, most int) (reason string) {
	switch {
	case len(text) > most:
		return fmt.Sprintf("must be at most %d bytes", most)
	case !utf8.ValidString(text):
		return "must be valid UTF-8"
	case strings.ContainsFunc(text, unicode.IsControl):
		return "must not contain control characters"
	}
	return ""
}

func checkOptions(at *field.Path, options []string) error {
	total := 0
	for i, option := range options {
		if reason := faultOf(option, maxOptions); reason != "" {
			return volume.Invalid(at.Index(i), redaction.Option(option), reason)
		}
		total += len(option)
	}
	if total > maxOptions {
		return field.Invalid(at, len(options), fmt.Sprintf("all options together must have at most %d bytes", maxOptions))
	}
	return nil
}

// checkBlockName refuses the names of the directories in which block volumes are staged and
// published: they are beside those of volumes.
func checkBlockName(at *field.Path, name string) error {
	if err := volume.ValidatePathComponent(at, name); err != nil {
		return err
	}
	if name == stagingDir || name == publishDir {
		return volume.Invalid(at, name, "is the name of a directory of the plugin")
	}
	return nil
}

// seLinuxLabel is the form of a label such as system_u:object_r:container_file_t:s0:c15,c25.
var seLinuxLabel = regexp.MustCompile(`^[A-Za-z0-9_.:,-]{1,256}$`)

func checkSELinuxText(at *field.Path, label string) error {
	if !seLinuxLabel.MatchString(label) {
		return volume.Invalid(at, label, "must be an SELinux label")
	}
	return nil
}
