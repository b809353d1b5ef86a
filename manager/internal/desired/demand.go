package desired

import (
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/reading"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// A DemandedVolume is the desired state of one volume for one pod.
type DemandedVolume struct {
	naming.Place
	Volume *Volume // with this pod alone
	Pod    *Pod
}

// A Demand is the desired state of all volumes of one pod. It depends on the pod, on results
// of the sources and the plugins, and on the volumes that are up in the pod, but on no other
// pod. It is immutable once it is in a population. A nil demand is that of a pod that is not
// desired.
type Demand struct {
	Pod     *v1.Pod
	Volumes []DemandedVolume // in the order of the pod's volumes
	Failed  []FailedVolume   // unresolved volumes
	Refs    []reading.Ref    // the claims and volumes that the demand depends on
}

// IsSame reports whether the demands are equal.
func (d *Demand) IsSame(other *Demand) bool {
	if d == nil || other == nil {
		return d == other
	}
	return d.Pod == other.Pod && slices.Equal(d.Volumes, other.Volumes) && slices.Equal(d.Refs, other.Refs) &&
		slices.EqualFunc(d.Failed, other.Failed, FailedVolume.IsSame)
}

// KeepsExisting reports whether the pod's existing volumes stay because one of its volumes
// is unresolved; false for nil.
func (d *Demand) KeepsExisting() bool {
	return d != nil && slices.ContainsFunc(d.Failed, func(f FailedVolume) bool { return f.KeepExisting })
}

// HasFailed reports whether the pod has unresolved volumes; false for nil.
func (d *Demand) HasFailed() bool { return d != nil && len(d.Failed) > 0 }

// VolumesOrNone returns the volumes; none for nil.
func (d *Demand) VolumesOrNone() []DemandedVolume {
	if d == nil {
		return nil
	}
	return d.Volumes
}

// FailedOrNone returns the unresolved volumes; none for nil.
func (d *Demand) FailedOrNone() []FailedVolume {
	if d == nil {
		return nil
	}
	return d.Failed
}

// RefsOrNone returns the refs; none for nil.
func (d *Demand) RefsOrNone() []reading.Ref {
	if d == nil {
		return nil
	}
	return d.Refs
}

// VolumeNamed returns the volume by its name in the pod.
func (d *Demand) VolumeNamed(name string) (w DemandedVolume, ok bool) {
	i := slices.IndexFunc(d.VolumesOrNone(), func(w DemandedVolume) bool { return w.Pod.OuterName == name })
	if i < 0 {
		return w, false
	}
	return d.Volumes[i], true
}

// VolumeIn returns the volume that is desired in a directory.
func (d *Demand) VolumeIn(dir naming.PodDir) (w DemandedVolume, ok bool) {
	i := slices.IndexFunc(d.VolumesOrNone(), func(w DemandedVolume) bool { return w.Key.Name == dir.Name && w.Volume.Plugin == dir.Plugin })
	if i < 0 {
		return w, false
	}
	return d.Volumes[i], true
}

// FailureOf returns why a volume is unresolved, by its name in the pod, or nil.
func (d *Demand) FailureOf(name string) error {
	for _, f := range slices.Backward(d.FailedOrNone()) { // of two failures of a volume the last one counts
		if f.Name == name {
			return f.Err
		}
	}
	return nil
}

// Add adds a volume. It returns an error if another volume of the pod has the same directory,
// or is the same volume for another use.
func (d *Demand) Add(w DemandedVolume) error {
	dir := naming.PodDir{Pod: w.Key.Pod, Plugin: w.Volume.Plugin, Name: w.Key.Name}
	if other, ok := d.VolumeIn(dir); ok && other.Place.Volume != w.Place.Volume {
		return fmt.Errorf("directory %q: already used by another volume of the pod: %w", w.Key.Name, volume.ErrNotSupported)
	}
	for _, other := range d.Volumes {
		if other.Place == w.Place && other.Pod.Spec.ReadOnly != w.Pod.Spec.ReadOnly {
			return fmt.Errorf("same volume as %q of the pod, and only one of the two is read-only: %w", brief.Name(other.Pod.OuterName), volume.ErrNotSupported)
		}
	}
	d.Volumes = append(d.Volumes, w)
	return nil
}

// remounts returns the number of volumes that are set up again periodically.
func (d *Demand) remounts() (n int) {
	for _, w := range d.VolumesOrNone() {
		if w.Volume.Traits.Remount {
			n++
		}
	}
	return n
}
