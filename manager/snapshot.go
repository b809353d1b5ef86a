package manager

import (
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/populate"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A MountedVolume is a volume that is up in a pod.
type MountedVolume struct {
	Name   string // in the pod
	Unique v1.UniqueVolumeName
	Plugin string
	Spec   *volume.Spec
	Path   string // directory or device
	Block  bool
	// ReadOnly says that containers get the volume read-only, even if its directory is writable
	// on the node, as for a configMap: by the pod, the specification, or the plugin's Attributes.
	// A container gets a read-only device with the permission r alone: by another name the pod
	// may have the same device, at the same path, for writing.
	ReadOnly bool
	// Attributes are the plugin's attributes (volume.Mounter, GetAttributes): whether the volume
	// is read-only, whether the plugin gives its files to the pod's group, and whether a container
	// runtime may relabel them for SELinux. A block device has none.
	Attributes volume.Attributes
}

// GetMountedVolumesForPod returns the volumes that are up in the pod and desired there, by
// their names in the pod. A volume that was recreated since, or whose claim is bound to
// another volume now, is left out. The caller may change the map.
//
// Like all lookups it takes no lock and does not wait for the manager.
func (m *Manager) GetMountedVolumesForPod(pod types.UID) map[string]MountedVolume {
	s := m.published()
	mounted := map[string]MountedVolume{}
	if s.want.Pod(pod) == nil {
		return mounted
	}
	for _, v := range s.want.Pod(pod).Spec.Volumes {
		name := naming.PodVolume{Pod: pod, Name: v.Name}
		at, ok := s.want.PlaceNamed(name)
		if !ok || !s.isUp(at) || populate.IsMismatch(s.want.FailureOf(name)) {
			continue
		}
		have := s.have.Volumes.Get(at.Volume)
		want, is := s.want.Volumes.Get(at.Volume).Pods.Get(at.Key), have.Pods.Get(at.Key)
		spec := want.SpecBy(&v)
		mounted[v.Name] = MountedVolume{
			Name: v.Name, Unique: at.Volume, Plugin: have.Plugin, Spec: spec, Path: is.Path, Block: is.Block,
			ReadOnly:   want.Args.ReadOnly || spec.IsReadOnly() || is.Attributes.ReadOnly,
			Attributes: is.Attributes,
		}
	}
	return mounted
}

// VolumeIsAttached reports whether the volume is certainly attached.
func (m *Manager) VolumeIsAttached(name v1.UniqueVolumeName) bool {
	v := m.published().have.Volumes.Get(name)
	return v != nil && v.Attached == actual.Present
}

// A State is the desired and actual state of a manager, for display.
type State struct {
	// Restored says that the volumes of an earlier run are included, Populated that all pods are.
	Restored, Populated bool
	Volumes             []VolumeState // sorted by name
	// Failed are the unresolved volumes of pods. A volume that was resolved before the source
	// failed is also in Volumes.
	Failed    []VolumeError
	Leftovers []Leftover
}

// A VolumeState is the state of a desired or existing volume.
type VolumeState struct {
	Unique   v1.UniqueVolumeName
	Plugin   string
	Spec     *volume.Spec // nil: not known
	Attached string       // "absent", "uncertain", "present"; empty: not attachable
	Device   string       // the same, for the device mount
	Pods     []PodState   // sorted
	// Operation is the oldest in-flight operation, Since its start; empty: none.
	Operation string
	Since     time.Time
	Err       error // last failure of a shared step
}

// A PodState is the state of a volume in a pod.
type PodState struct {
	Pod    types.UID
	Name   string // in the pod, if known, or else the name of the directory
	Wanted bool
	State  string // "absent", "uncertain", "present"; of another volume of the same name: see Waits
	Path   string
	// ReadOnly is MountedVolume.ReadOnly of a volume that is up and desired.
	ReadOnly bool
	Err      error // last failure
	// Waits is why the pod waits for the volume without a failure, such as another pod that holds
	// a volume for one pod at a time. Nil: it does not wait.
	Waits error
}

// Phase is the state in one word for users: "mounted", "pending", "failed", "leaving",
// "uncertain".
func (p PodState) Phase() string {
	switch {
	case p.Err != nil:
		return "failed"
	case !p.Wanted:
		return "leaving"
	case p.State == actual.Present.String():
		return "mounted"
	case p.State == actual.Uncertain.String():
		return "uncertain"
	}
	return "pending"
}

// Totals counts volumes by plugin and state, as the kubelet's volume_manager_total_volumes
// does: the pods that need a volume as "desired_state_of_world", the pods that have one as
// "actual_state_of_world".
func (s State) Totals() map[string]map[string]int {
	totals := map[string]map[string]int{}
	for _, v := range s.Volumes {
		of := totals[v.Plugin]
		if of == nil {
			of = map[string]int{}
			totals[v.Plugin] = of
		}
		for _, pod := range v.Pods {
			if pod.Wanted {
				of["desired_state_of_world"]++
			}
			if pod.State != actual.Absent.String() {
				of["actual_state_of_world"]++
			}
		}
	}
	return totals
}

// State returns the current state. It takes no lock and queries neither plugins nor the
// source. The caller may change the slices.
func (m *Manager) State() State {
	known := m.published()
	s := State{Restored: known.restored, Populated: known.want.Populated, Leftovers: slices.Clone(known.leftovers)}
	for _, name := range planning.VolumeNames(known.want.World, known.have) {
		s.Volumes = append(s.Volumes, known.volumeState(name))
	}
	for at, f := range known.want.AllFailed() {
		s.Failed = append(s.Failed, known.failedVolume(at, f.Err))
	}
	slices.SortFunc(s.Failed, func(a, b VolumeError) int {
		return strings.Compare(string(a.Pod)+"/"+a.Name, string(b.Pod)+"/"+b.Name)
	})
	return s
}

func (s *snapshot) volumeState(name v1.UniqueVolumeName) VolumeState {
	want, have := s.want.Volumes.Get(name), s.have.Volumes.Get(name)
	if want == nil {
		want = &desired.Volume{Plugin: have.Plugin, Spec: have.Spec, Traits: have.Traits}
	}
	if have == nil {
		have = &actual.Volume{}
	}
	v := VolumeState{Unique: name, Plugin: want.Plugin, Spec: want.Spec, Err: s.failures.Get(failureKey{volume: name})}
	if want.Traits.Attachable {
		v.Attached = have.Attached.String()
	}
	if want.Traits.OnDevice() {
		v.Device = have.Device.String()
	}
	if flights := s.schedule.Of(name); len(flights) > 0 { // the oldest
		v.Operation, v.Since = flights[0].Verb.String(), flights[0].Since
	}
	for key, pod := range want.Pods.All() {
		v.Pods = append(v.Pods, s.podState(name, key, pod.OuterName, have))
	}
	for key := range have.Pods.All() {
		if want.Pods.Get(key) == nil {
			v.Pods = append(v.Pods, s.podState(name, key, "", have))
		}
	}
	slices.SortFunc(v.Pods, func(a, b PodState) int {
		return strings.Compare(string(a.Pod)+"/"+a.Name, string(b.Pod)+"/"+b.Name)
	})
	return v
}

func (s *snapshot) podState(name v1.UniqueVolumeName, key naming.PodKey, outer string, have *actual.Volume) PodState {
	p := PodState{
		Pod: key.Pod, Name: outer, Wanted: outer != "", State: have.StateOf(key).String(),
		Err: s.failures.Get(failureKey{name, key}), Waits: s.waitReason(naming.Place{Volume: name, Key: key}),
	}
	if outer == "" {
		p.Name = key.Name
	}
	if pod := have.Pods.Get(key); pod != nil {
		p.Path = pod.Path
		if want := s.want.Volumes.Get(name).PodsOrNone().Get(key); want != nil && pod.State == actual.Present {
			p.ReadOnly = want.Args.ReadOnly || want.Spec.IsReadOnly() || pod.Attributes.ReadOnly
		}
	}
	return p
}
