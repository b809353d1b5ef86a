package main

import (
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/util"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c claim) String() string { return namespaceOf(c) + "/" + c.Name }

// field returns the path of a field of the claim's specification.
func (c claim) field(name string) *field.Path { return c.path.Child("spec", name) }

// volumeOf returns the volume that the claim names, or else the one that names
// the claim.
func (m *manifest) volumeOf(c claim) (document[*v1.PersistentVolume], error) {
	if name := c.Spec.VolumeName; name != "" {
		return m.volumeByName(c, name)
	}
	var found []document[*v1.PersistentVolume]
	var names []string
	for _, d := range m.volumes {
		if c.isMeantBy(d.object.Spec.ClaimRef) {
			found, names = append(found, d), append(names, d.object.Name)
		}
	}
	path := c.field("volumeName")
	switch len(found) {
	case 0:
		return document[*v1.PersistentVolume]{}, c.refuse(field.Required(path,
			fmt.Sprintf("or a PersistentVolume with a spec.claimRef to %s", c)))
	case 1:
		return found[0], nil
	}
	return document[*v1.PersistentVolume]{}, c.refuse(field.Required(path,
		fmt.Sprintf("the spec.claimRef of several PersistentVolumes is %s: %s", c, strings.Join(names, ", "))))
}

func (m *manifest) volumeByName(c claim, name string) (d document[*v1.PersistentVolume], err error) {
	path := c.field("volumeName")
	for _, d := range m.volumes {
		if d.object.Name != name {
			continue
		}
		if ref := d.object.Spec.ClaimRef; ref != nil && !c.isMeantBy(ref) {
			return d, c.refuse(field.Invalid(path, name,
				fmt.Sprintf("this PersistentVolume has a spec.claimRef to %s, not to %s", reference(ref), c)))
		}
		return d, nil
	}
	return d, c.refuse(field.Invalid(path, short(name), "no such PersistentVolume"))
}

// isMeantBy reports whether a volume's reference is to the claim. A claim of the
// same name and another UID is another claim.
func (c claim) isMeantBy(ref *v1.ObjectReference) bool {
	return ref != nil && ref.Name == c.Name && namespaceOr(ref.Namespace) == namespaceOf(c) &&
		(ref.UID == "" || c.UID == "" || ref.UID == c.UID)
}

func reference(ref *v1.ObjectReference) string {
	text := namespaceOr(ref.Namespace) + "/" + ref.Name
	if ref.UID != "" {
		text += " with UID " + string(ref.UID)
	}
	return short(text)
}

// fits checks that the volume can be what the claim asks for.
func (c claim) fits(pv *v1.PersistentVolume) error {
	asked, offered := modeOf(c.Spec.VolumeMode), modeOf(pv.Spec.VolumeMode)
	if asked != offered {
		return c.refuse(field.Invalid(c.field("volumeMode"), short(string(asked)),
			fmt.Sprintf("PersistentVolume %s has %s", pv.Name, short(string(offered)))))
	}
	if !util.AccessModesContainedInAll(pv.Spec.AccessModes, c.Spec.AccessModes) {
		return c.refuse(field.Invalid(c.field("accessModes"), list(c.Spec.AccessModes),
			fmt.Sprintf("PersistentVolume %s has %s", pv.Name, list(pv.Spec.AccessModes))))
	}
	return nil
}

func modeOf(mode *v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	if mode == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *mode
}

func list(modes []v1.PersistentVolumeAccessMode) string {
	if len(modes) == 0 {
		return "none"
	}
	var names []string
	for _, mode := range modes {
		names = append(names, string(mode))
	}
	return short(strings.Join(names, ", "))
}
