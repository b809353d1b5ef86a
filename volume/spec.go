package volume

import v1 "k8s.io/api/core/v1"

// A Spec names a volume: exactly one of Volume and PersistentVolume is set.
// It is a value to read: methods change nothing and are safe for concurrent
// use, also on a nil *Spec.
type Spec struct {
	Volume           *v1.Volume
	PersistentVolume *v1.PersistentVolume
	// ReadOnly is set if the pod's use of the claim is read-only.
	ReadOnly bool
}

// NewSpecFromVolume returns the specification of a volume that is written in the
// pod itself. It keeps the pointer. It checks nothing, see [Spec.Validate].
func NewSpecFromVolume(v *v1.Volume) *Spec {
	return &Spec{Volume: v}
}

// NewSpecFromPersistentVolume returns the specification of a persistent volume;
// readOnly says that the pod's use of the claim is read-only. It keeps the
// pointer. It checks nothing, see [Spec.Validate].
func NewSpecFromPersistentVolume(pv *v1.PersistentVolume, readOnly bool) *Spec {
	return &Spec{PersistentVolume: pv, ReadOnly: readOnly}
}

// Name returns the name of the persistent volume, or the volume's name in its
// pod. It is empty if not exactly one of the two is set. The name is as the user
// wrote it: [Spec.Validate] says whether it can be part of a path.
func (s *Spec) Name() string {
	switch {
	case s == nil, s.Volume != nil && s.PersistentVolume != nil:
		return ""
	case s.Volume != nil:
		return s.Volume.Name
	case s.PersistentVolume != nil:
		return s.PersistentVolume.Name
	}
	return ""
}

// IsReadOnly reports whether the volume is never to be written to: the pod's use
// of the claim, the source of whichever kind, or a mount option of the
// persistent volume says so. Each of them is enough; an "rw" elsewhere does not
// take it back.
func (s *Spec) IsReadOnly() bool {
	return s != nil && (s.ReadOnly || s.sourceIsReadOnly() || s.hasReadOnlyOption())
}

// IsBlock reports whether the volume is a raw block device rather than a
// directory. Volumes that are written in the pod itself never are.
func (s *Spec) IsBlock() bool {
	if s == nil || s.PersistentVolume == nil {
		return false
	}
	mode := s.PersistentVolume.Spec.VolumeMode
	return mode != nil && *mode == v1.PersistentVolumeBlock
}
