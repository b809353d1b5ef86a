package record

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Record describes an attached volume or a device mount on disk; other volumes are
// reconstructed from directories and the mount table alone. It is written before the volume
// may exist, and removed once the volume is known to be absent: a record may describe an
// absent volume, but no existing volume lacks a record.
type Record struct {
	Version int                 `json:"version"`
	Volume  v1.UniqueVolumeName `json:"volume"`
	Plugin  string              `json:"plugin"`
	Name    string              `json:"name"` // as returned by GetVolumeName
	Spec    Spec                `json:"spec"`

	Attachable      bool `json:"attachable,omitempty"`
	DeviceMountable bool `json:"deviceMountable,omitempty"`
	Block           bool `json:"block,omitempty"`

	DevicePath      string             `json:"devicePath,omitempty"`
	DeviceMountPath string             `json:"deviceMountPath,omitempty"`
	StagingPath     string             `json:"stagingPath,omitempty"` // the result of SetUpDevice
	Size            *resource.Quantity `json:"size,omitempty"`
	Pods            []Pod              `json:"pods,omitempty"`
	For             *Pod               `json:"for,omitempty"` // the pod of the last shared step
}

// A Spec is the specification of a recorded volume.
type Spec struct {
	Volume           *v1.Volume           `json:"volume,omitempty"`
	PersistentVolume *v1.PersistentVolume `json:"persistentVolume,omitempty"`
	ReadOnly         bool                 `json:"readOnly,omitempty"`
}

// A Pod names a volume in a pod.
type Pod struct {
	UID  types.UID `json:"uid"`
	Name string    `json:"name"` // of the volume's directory
}

const recordVersion = 1

// check refuses names that are invalid as directory names.
func (p Pod) check(name string) error {
	at := field.NewPath(name)
	if err := volume.ValidatePathComponent(at.Child("uid"), string(p.UID)); err != nil {
		return err
	}
	return volume.ValidatePathComponent(at.Child("name"), p.Name)
}

// Parse parses the contents of the record file of that name.
func Parse(name string, text []byte) (Record, error) {
	var rec Record
	if err := json.Unmarshal(text, &rec); err != nil {
		return Record{}, err
	}
	return rec, rec.check(name)
}

// check refuses contents that Write does not write.
func (rec Record) check(file string) error {
	switch {
	case rec.Version != recordVersion:
		return fmt.Errorf("unknown version %d", rec.Version)
	case FileName(rec.Volume) != file:
		return fmt.Errorf("record of another volume, %q", brief.Name(string(rec.Volume)))
	}
	for _, pod := range rec.Pods {
		if err := pod.check("pods"); err != nil {
			return err
		}
	}
	if rec.For != nil {
		if err := rec.For.check("for"); err != nil {
			return err
		}
	}
	if err := quantity.CheckOf("the size", rec.Size); err != nil { // before anything compares it
		return err
	}
	return rec.FullSpec().Validate()
}

// FullSpec returns the specification as plugins take it.
func (rec Record) FullSpec() *volume.Spec {
	return &volume.Spec{Volume: rec.Spec.Volume, PersistentVolume: rec.Spec.PersistentVolume, ReadOnly: rec.Spec.ReadOnly}
}

// ActualVolume returns the recorded volume in state uncertain.
func (rec Record) ActualVolume() *actual.Volume {
	v := &actual.Volume{
		Plugin: rec.Plugin, Name: rec.Name, Spec: rec.FullSpec(),
		Traits:     naming.Traits{Attachable: rec.Attachable, DeviceMountable: rec.DeviceMountable, Block: rec.Block},
		DevicePath: rec.DevicePath, DeviceMountPath: rec.DeviceMountPath, StagePath: rec.StagingPath, Size: rec.Size, SizeIsOld: true,
	}
	if v.AssumeUncertain(); rec.DeviceMountPath == "" { // recorded before the device is mounted
		v.Device = actual.Absent
	}
	if rec.For != nil {
		v.LastPod = naming.PodKey{Pod: rec.For.UID, Name: rec.For.Name}
	}
	for _, pod := range rec.Pods {
		v.LastPod = naming.PodKey{Pod: pod.UID, Name: pod.Name}
		v.Pods.Set(v.LastPod, &actual.Pod{State: actual.Uncertain, Block: rec.Block})
	}
	return v
}

// Of returns the record of a volume before its set-up for one more pod, if that pod has
// a name.
func Of(name v1.UniqueVolumeName, v *actual.Volume, more naming.PodKey) *Record {
	rec := &Record{
		Version: recordVersion, Volume: name, Plugin: v.Plugin, Name: v.Name,
		Spec:       Spec{v.Spec.Volume, v.Spec.PersistentVolume, v.Spec.ReadOnly},
		Attachable: v.Traits.Attachable, DeviceMountable: v.Traits.DeviceMountable, Block: v.Traits.Block,
		DevicePath: v.DevicePath, DeviceMountPath: v.DeviceMountPath, StagingPath: v.StagePath, Size: v.Size,
	}
	if v.LastPod.Name != "" {
		rec.For = &Pod{v.LastPod.Pod, v.LastPod.Name}
	}
	for key := range v.Pods.All() {
		rec.Pods = append(rec.Pods, Pod{key.Pod, key.Name})
	}
	if next := (Pod{more.Pod, more.Name}); more.Name != "" && !slices.Contains(rec.Pods, next) {
		rec.Pods = append(rec.Pods, next)
	}
	return rec
}
