package actual

import (
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// A Volume is the actual state of one volume: whether it is attached, mounted for all
// pods, and up in pods.
type Volume struct {
	Plugin string
	Name   string       // as returned by GetVolumeName
	Spec   *volume.Spec // nil: not known, after a restart
	Traits naming.Traits

	Attached   State
	DevicePath string // as returned by WaitForAttach

	Device              State // the device mount, or the set-up block device
	DeviceMountPath     string
	DeviceMount         uint64 // mount ID, as in Pod
	NoDeviceMount       bool   // MountDevice mounted nothing at the path, so that no mount can vanish
	DeviceReadOnly      bool   // mounted for pods that only read
	DeviceStaysReadOnly bool   // the plugin cannot remount it while readers have it

	LastPod naming.PodKey // the last pod for which the shared step was done

	StagePath string // of a block device, the result of SetUpDevice

	Size      *resource.Quantity // of the file system; nil: not known
	SizeIsOld bool               // the size comes from the record of an earlier run
	Pods      naming.PodMap[*Pod]
}

// lastUser returns the pod for which the volume was last attached or mounted; none for nil.
func (v *Volume) lastUser() types.UID {
	if v == nil {
		return ""
	}
	return v.LastPod.Pod
}

// Storage returns the storage of the volume.
func (v *Volume) Storage() naming.Storage {
	return naming.Storage{Plugin: v.Plugin, Name: v.Name}
}

// OccupiedPath returns the device mount path at which the volume is, or may be, mounted; empty if
// none is known.
func (v *Volume) OccupiedPath() string {
	if v.Device == Absent {
		return ""
	}
	return v.DeviceMountPath
}

// DirOf returns the directory of the volume in a pod.
func (v *Volume) DirOf(key naming.PodKey) naming.PodDir {
	return naming.PodDir{Pod: key.Pod, Plugin: v.Plugin, Name: key.Name}
}

// IsInUse reports whether the volume is, or may be, up in a pod other than the given one.
func (v *Volume) IsInUse(except naming.PodKey) bool {
	for key, pod := range v.Pods.All() {
		if key != except && pod.State != Absent {
			return true
		}
	}
	return false
}

// StateOf returns the state of the volume in a pod.
func (v *Volume) StateOf(key naming.PodKey) State {
	if pod := v.Pods.Get(key); pod != nil {
		return pod.State
	}
	return Absent
}

// ExpectedMount returns the mount that is expected at a place; false: none is.
func (v *Volume) ExpectedMount(at naming.Place) (mnt ExpectedMount, ok bool) {
	switch {
	case v == nil:
		return mnt, false
	case at.Key == (naming.PodKey{}):
		return ExpectedMount{Path: v.DeviceMountPath, ID: v.DeviceMount, Volume: at.Volume}, v.Device == Present && !v.Traits.Block && !v.NoDeviceMount
	}
	pod := v.Pods.Get(at.Key)
	if pod == nil || pod.State != Present || !pod.Mounted {
		return mnt, false
	}
	return ExpectedMount{pod.Path, pod.Mount, at.Volume, at.Key, pod}, true
}

// AssumeUncertain makes the shared steps uncertain that a volume in a pod needs.
func (v *Volume) AssumeUncertain() {
	if v.Traits.Attachable {
		v.Attached = Uncertain
	}
	if v.Traits.OnDevice() {
		v.Device = Uncertain
	}
}

// WithPod returns a copy with another state of a pod.
func (v *Volume) WithPod(key naming.PodKey, pod *Pod) *Volume {
	other := *v
	other.Pods = v.Pods.With(key, pod)
	return &other
}

// IsAbsent reports whether the volume is certainly neither attached, nor mounted, nor up in a pod.
func (v *Volume) IsAbsent() bool {
	return v.Attached == Absent && v.Device == Absent && !v.IsInUse(naming.PodKey{})
}

// SpecOr returns the specification of the volume or, if not known, the given one.
func (v *Volume) SpecOr(spec *volume.Spec) *volume.Spec {
	if v.Spec == nil {
		return spec
	}
	return v.Spec
}

// KnownSize returns the largest known size: grown by this run, in the claim's status, or else
// in the record; nil: not known. A recorded expansion may be missing in the claim's status, so
// that a claimed size replaces a recorded one.
func (v *Volume) KnownSize(claimed *resource.Quantity) *resource.Quantity {
	switch {
	case claimed == nil:
		return v.Size
	case v.Size == nil, v.SizeIsOld, v.Size.Cmp(*claimed) < 0:
		return claimed
	}
	return v.Size
}
