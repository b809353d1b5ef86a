package desired

import (
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A Volume is a volume that at least one pod needs. It is immutable once it is in a
// population, because later populations share it.
type Volume struct {
	Plugin          string
	Name            string // as returned by GetVolumeName
	Spec            *volume.Spec
	Traits          naming.Traits
	DeviceMountPath string             // empty: none, or the plugin cannot name it now
	Size            *resource.Quantity // requested size; nil: not known, or cannot grow
	ClaimSize       *resource.Quantity // size in the claim's status; nil: not known
	Pods            naming.PodMap[*Pod]
}

// A Pod is the desired state of a volume in one pod.
type Pod struct {
	Pod       *v1.Pod
	OuterName string // the volume's name in the specification of the pod
	Spec      *volume.Spec
	Claim     *v1.PersistentVolumeClaim // of a persistent volume; nil: not known
	Args      volume.MounterArgs
	Block     bool
}

// SpecBy returns the specification for one of the pod's names of the volume: read-only for a
// read-only name of a claim that the pod also writes to.
func (p *Pod) SpecBy(v *v1.Volume) *volume.Spec {
	if _, readOnly := podspec.ClaimOf(p.Pod, v); !readOnly || p.Spec.ReadOnly {
		return p.Spec
	}
	return volume.NewSpecFromPersistentVolume(p.Spec.PersistentVolume, true)
}

// Writer returns the first pod that may write to the volume; without one, the first pod.
func (v *Volume) Writer() naming.PodKey {
	for key := range v.Pods.All() {
		if v.IsWriter(key) {
			return key
		}
	}
	if len(v.Pods) == 0 {
		return naming.PodKey{}
	}
	return v.Pods[0].Key
}

// HasWriter reports whether a pod may write to the volume; false for nil.
func (v *Volume) HasWriter() bool { return v != nil && v.IsWriter(v.Writer()) }

// IsWriter reports whether a pod may write to the volume.
func (v *Volume) IsWriter(key naming.PodKey) bool {
	pod := v.Pods.Get(key)
	return pod != nil && !pod.Spec.IsReadOnly()
}

// PodsOrNone returns the pods; none for nil.
func (v *Volume) PodsOrNone() naming.PodMap[*Pod] {
	if v == nil {
		return nil
	}
	return v.Pods
}

// Storage returns the storage of the volume.
func (v *Volume) Storage() naming.Storage {
	return naming.Storage{Plugin: v.Plugin, Name: v.Name}
}
