package manager

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A MountedVolume is a volume that is up in a pod.
type MountedVolume struct {
	Name     string // in the pod
	Unique   v1.UniqueVolumeName
	Plugin   string
	Spec     *volume.Spec
	Path     string // the directory, or the device
	Block    bool
	ReadOnly bool
}

// GetMountedVolumesForPod returns the volumes that are up in the pod and wanted there,
// by their names in it. One that was deleted and made anew since, or whose claim is bound
// to another now, is not wanted there. The map is the caller's.
func (m *Manager) GetMountedVolumesForPod(pod types.UID) map[string]MountedVolume {
	m.mu.Lock()
	defer m.mu.Unlock()
	mounted := map[string]MountedVolume{}
	if m.want.pods[pod] == nil {
		return mounted
	}
	for _, v := range m.want.pods[pod].Spec.Volumes {
		name := podVolume{pod, v.Name}
		at, ok := m.want.places.named(name)
		if !ok || !m.isUp(at) || errors.Is(m.want.failed[name], errRebound) {
			continue
		}
		have := m.have.volumes[at.volume]
		want, is := m.want.volumes[at.volume].pods.get(at.key), have.pods.get(at.key)
		mounted[v.Name] = MountedVolume{
			Name: v.Name, Unique: at.volume, Plugin: have.plugin, Spec: want.spec, Path: is.path, Block: is.block,
			ReadOnly: want.args.ReadOnly || want.spec.IsReadOnly(),
		}
	}
	return mounted
}

// GetVolumesInUse returns the volumes that have to be attached and that a pod wants, or
// that are or may be mounted, sorted: what a node reports as in use, so that nobody
// detaches it. Of a [Leftover] it is listed if a record tells of it. Before the manager
// has looked around there are none in it.
//
// What no pod wants and nothing has mounted is not in use, though it may be attached yet:
// a volume is taken from its pods, then unmounted for all, then it is not in use any more,
// and then detached.
func (m *Manager) GetVolumesInUse() []v1.UniqueVolumeName {
	m.mu.Lock()
	defer m.mu.Unlock()
	inUse := map[v1.UniqueVolumeName]bool{}
	for name, v := range m.want.volumes {
		if v.traits.attachable {
			inUse[name] = true
		}
	}
	for name, v := range m.have.volumes {
		if v.traits.attachable && !m.isLetGo(name) {
			inUse[name] = true
		}
	}
	for _, rec := range m.unread {
		if rec.attachable {
			inUse[rec.volume] = true
		}
	}
	return slices.Sorted(maps.Keys(inUse))
}

// isLetGo reports whether all that is left to do is to detach the volume. The caller holds
// mu.
func (m *Manager) isLetGo(name v1.UniqueVolumeName) bool {
	if f := m.flights[name]; f != nil && isUp(f.verb) {
		return false
	}
	p := plannerOf(name, m.want.desiredWorld, m.have, m.schedule, time.Time{})
	return p.have.device == absent && p.mayRelease()
}

// VolumeIsAttached reports whether the volume is attached, for certain.
func (m *Manager) VolumeIsAttached(name v1.UniqueVolumeName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.have.volumes[name]
	return v != nil && v.attached == present
}

// MarkVolumesAsReportedInUse says which volumes the cluster knows to be in use. With
// Config.ReportFirst others are not attached. The last call counts.
func (m *Manager) MarkVolumesAsReportedInUse(names []v1.UniqueVolumeName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inUse = map[v1.UniqueVolumeName]bool{}
	for _, name := range names {
		m.inUse[name] = true
	}
	if m.config.ReportFirst {
		m.reported = m.inUse
		m.allDirty()
		m.poke()
	}
}

// A State is what a manager knows, for display.
type State struct {
	// Restored says that what an earlier run has left is in it, Populated that all
	// pods are.
	Restored, Populated bool
	Volumes             []VolumeState // sorted by name
	// Failed are volumes of pods of which it cannot be found out what they are. Those
	// of which it was known before the source failed are in Volumes, too.
	Failed    []VolumeError
	Leftovers []Leftover
}

// A VolumeState is what is known of a volume, wanted or there.
type VolumeState struct {
	Unique   v1.UniqueVolumeName
	Plugin   string
	Spec     *volume.Spec // nil: not known
	Attached string       // "absent", "uncertain", "present"; empty: it need not be
	Device   string       // the same, of the mount for all pods
	Pods     []PodState   // sorted
	// Operation is what is being done, since when; empty: nothing.
	Operation string
	Since     time.Time
	Err       error // what failed last for all pods
}

// A PodState is what is known of a volume in a pod.
type PodState struct {
	Pod    types.UID
	Name   string // in the pod, if that is known, or else the volume's own
	Wanted bool
	State  string // "absent", "uncertain", "present"; of another volume of its name, see Waits
	Path   string
	Err    error // what failed last
	// Waits says why the pod has to wait for the volume though nothing has failed: it
	// is for one pod at a time and another has it, say. Nil: it need not.
	Waits error
}

// Phase is the state in one word, for people: "mounted", "pending", "failed",
// "leaving", "uncertain".
func (p PodState) Phase() string {
	switch {
	case p.Err != nil:
		return "failed"
	case !p.Wanted:
		return "leaving"
	case p.State == present.String():
		return "mounted"
	case p.State == uncertain.String():
		return "uncertain"
	}
	return "pending"
}

// Totals counts the volumes by plugin and state: how many pods want one, in "desired",
// and have one, in "actual". It is what the kubelet's volume_manager_total_volumes says.
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
			if pod.State != absent.String() {
				of["actual_state_of_world"]++
			}
		}
	}
	return totals
}

// State returns what the manager knows now. It asks nobody.
func (m *Manager) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{Restored: m.restored, Populated: m.want.populated, Leftovers: slices.Clone(m.leftovers)}
	for _, name := range names(m.want.desiredWorld, m.have) {
		s.Volumes = append(s.Volumes, m.volumeState(name))
	}
	for at, err := range m.want.failed {
		s.Failed = append(s.Failed, VolumeError{at.pod, at.name, err})
	}
	slices.SortFunc(s.Failed, func(a, b VolumeError) int {
		return strings.Compare(string(a.Pod)+"/"+a.Name, string(b.Pod)+"/"+b.Name)
	})
	return s
}

func (m *Manager) volumeState(name v1.UniqueVolumeName) VolumeState {
	want, have := m.want.volumes[name], m.have.volumes[name]
	if want == nil {
		want = &desiredVolume{plugin: have.plugin, spec: have.spec, traits: have.traits}
	}
	if have == nil {
		have = &actualVolume{}
	}
	v := VolumeState{Unique: name, Plugin: want.plugin, Spec: want.spec, Err: m.failures[failureKey{volume: name}]}
	if want.traits.attachable {
		v.Attached = have.attached.String()
	}
	if want.traits.onDevice() {
		v.Device = have.device.String()
	}
	if f := m.flights[name]; f != nil {
		v.Operation, v.Since = f.verb.String(), f.since
	}
	for key, pod := range want.pods.all() {
		v.Pods = append(v.Pods, m.podState(name, key, pod.outer, have))
	}
	for key := range have.pods.all() {
		if want.pods.get(key) == nil {
			v.Pods = append(v.Pods, m.podState(name, key, "", have))
		}
	}
	slices.SortFunc(v.Pods, func(a, b PodState) int {
		return strings.Compare(string(a.Pod)+"/"+a.Name, string(b.Pod)+"/"+b.Name)
	})
	return v
}

func (m *Manager) podState(name v1.UniqueVolumeName, key podKey, outer string, have *actualVolume) PodState {
	p := PodState{
		Pod: key.pod, Name: outer, Wanted: outer != "", State: have.stateOf(key).String(),
		Err: m.failures[failureKey{name, key}], Waits: m.whyWaits(place{name, key}),
	}
	if outer == "" {
		p.Name = key.name
	}
	if pod := have.pods.get(key); pod != nil {
		p.Path = pod.path
	}
	return p
}
