package util

import (
	"cmp"
	"fmt"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MatchVolume returns nil if the claim can be bound to the volume, by the rules of
// Kubernetes:
//
//   - references: if the claim names a volume (spec.volumeName), it is this one; if the
//     volume names a claim (spec.claimRef), it is this one, with the same UID if the
//     reference has one;
//   - access modes: the volume has all that the claim requests;
//   - size: the capacity is at least the request;
//   - class: the storage classes are equal, the annotation
//     v1.BetaStorageClassAnnotation first, and so are the volume attributes classes;
//   - mode: both are file systems, which is the default, or both are block devices;
//   - selector: the volume's labels match the claim's selector, unless one of the two names
//     the other;
//   - deletion: a volume that is being deleted is not bound anew;
//   - node affinity: see [CheckNodeAffinity]. With a nil node, as when a claim is bound
//     before its pod is scheduled, it is not checked.
//
// The phases are not checked: the claim reference of a released volume has another UID. A
// claim and a volume that are bound already may differ, such as while the volume grows.
// Of several volumes that match, a binder chooses the smallest, but prefers a volume whose
// claim reference names the claim.
//
// The error wraps [ErrMismatch] and names the field of the volume that does not match.
// A claim or volume that is malformed (a selector, a quantity, a node affinity) is refused
// with a [*field.Error]. MatchVolume only reads its arguments.
func MatchVolume(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume, node *v1.Node) error {
	m, err := newMatch(claim, pv)
	if err != nil {
		return err
	}
	for _, check := range []func() error{m.references, m.accessModes, m.size, m.classes, m.modes, m.selector, m.deletion} {
		if err := check(); err != nil {
			return m.named(err)
		}
	}
	if node == nil {
		return nil
	}
	return m.named(CheckNodeAffinity(pv, node))
}

// CheckVolumeModesMatch returns an error that wraps [ErrMismatch] if one of the two is a
// file system, which is the default, and the other is a block device. Nil is refused with a
// [*field.Error].
func CheckVolumeModesMatch(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) error {
	m, err := newMatch(claim, pv)
	if err != nil {
		return err
	}
	return m.modes()
}

func (m match) modes() error {
	return m.equal("spec.volumeMode", modeOr(m.pv.Spec.VolumeMode), modeOr(m.claim.Spec.VolumeMode))
}

func modeOr(mode *v1.PersistentVolumeMode) string {
	if mode == nil {
		return string(v1.PersistentVolumeFilesystem)
	}
	return string(*mode)
}

// A match compares a claim and a volume.
type match struct {
	claim *v1.PersistentVolumeClaim
	pv    *v1.PersistentVolume
}

func newMatch(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) (match, error) {
	switch {
	case claim == nil:
		return match{}, field.Required(field.NewPath("claim"), "needed for the match")
	case pv == nil:
		return match{}, field.Required(field.NewPath("persistentVolume"), "needed for the match")
	}
	return match{claim, pv}, nil
}

// named adds the names of the claim and the volume to an error.
func (m match) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("claim %s/%s: persistent volume %s: %w",
		input.Shorten(m.claim.Namespace), input.Shorten(m.claim.Name), input.Quote(m.pv.Name), err)
}

func (m match) equal(field, of, wanted string) error {
	if of == wanted {
		return nil
	}
	return m.mismatch(field, of, wanted)
}

func (m match) mismatch(field, of, wanted string) error {
	return fmt.Errorf("%s: %s, the claim requests %s: %w", field, input.Quote(of), input.Quote(wanted), ErrMismatch)
}

func (m match) references() error {
	if name := m.claim.Spec.VolumeName; name != "" && name != m.pv.Name {
		return m.mismatch("metadata.name", m.pv.Name, name)
	}
	ref := m.pv.Spec.ClaimRef
	if ref == nil || ref.Namespace == m.claim.Namespace && ref.Name == m.claim.Name && (ref.UID == "" || ref.UID == m.claim.UID) {
		return nil
	}
	return m.mismatch("spec.claimRef", fmt.Sprintf("%s/%s %s", ref.Namespace, ref.Name, ref.UID), string(m.claim.UID))
}

func (m match) accessModes() error {
	of, wanted := m.pv.Spec.AccessModes, m.claim.Spec.AccessModes
	if AccessModesContainedInAll(of, wanted) {
		return nil
	}
	return m.mismatch("spec.accessModes", fmt.Sprint(of), fmt.Sprint(wanted))
}

func (m match) size() error {
	of, wanted := m.pv.Spec.Capacity[v1.ResourceStorage], m.claim.Spec.Resources.Requests[v1.ResourceStorage]
	if err := quantity.Check(&of); err != nil {
		return volume.Invalid(field.NewPath("persistentVolume", "spec", "capacity", "storage"), quantity.Text(&of), err.Error())
	}
	if err := quantity.Check(&wanted); err != nil {
		return volume.Invalid(field.NewPath("claim", "spec", "resources", "requests", "storage"), quantity.Text(&wanted), err.Error())
	}
	if of.Cmp(wanted) >= 0 {
		return nil
	}
	return m.mismatch("spec.capacity.storage", quantity.Text(&of), quantity.Text(&wanted))
}

func (m match) classes() error {
	of := classOf(m.pv, m.pv.Spec.StorageClassName)
	wanted := classOf(m.claim, valueOf(m.claim.Spec.StorageClassName))
	return cmp.Or(m.equal("spec.storageClassName", of, wanted),
		m.equal("spec.volumeAttributesClassName", valueOf(m.pv.Spec.VolumeAttributesClassName), valueOf(m.claim.Spec.VolumeAttributesClassName)))
}

// classOf returns the class of the annotation, even an empty one, before the field's, as
// Kubernetes does.
func classOf(object metav1.Object, name string) string {
	if class, ok := object.GetAnnotations()[v1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return name
}

func valueOf(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func (m match) selector() error {
	if m.claim.Spec.Selector == nil || m.claim.Spec.VolumeName != "" || m.pv.Spec.ClaimRef != nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(m.claim.Spec.Selector)
	if err != nil {
		return volume.Invalid(field.NewPath("claim", "spec", "selector"), err.Error(), "not a label selector")
	}
	if selector.Matches(labels.Set(m.pv.Labels)) {
		return nil
	}
	return m.mismatch("metadata.labels", labels.FormatLabels(m.pv.Labels), selector.String())
}

func (m match) deletion() error {
	if m.pv.DeletionTimestamp == nil || m.pv.Spec.ClaimRef != nil && m.pv.Spec.ClaimRef.UID != "" {
		return nil
	}
	return fmt.Errorf("metadata.deletionTimestamp: the volume is being deleted: %w", ErrMismatch)
}
