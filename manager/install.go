package manager

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// install makes a population the desired state of the world.
func (l *loop) install(want population) {
	l.mu.Lock()
	before := l.want
	l.want = want
	if renamed := l.adopt(); renamed || !before.populated || !maps.Equal(before.keep, want.keep) {
		l.allDirty()
	} else {
		l.changedDirty(before)
	}
	l.remountChanged(before)
	l.hastenWriters(before)
	l.cancelUnwanted()
	l.forgetFailures()
	l.tellAll()
	l.mu.Unlock()
	for _, at := range sortedVolumes(want.failed) {
		err := want.failed[at]
		if old := before.failed[at]; !errors.Is(err, errAsking) && (old == nil || old.Error() != err.Error()) {
			l.config.Logger.With(logOf(at.pod, want.pods[at.pod])...).Warn("volume cannot be set up", append(logged(err), "volume", short(at.name))...)
			l.config.Events(failedMount(want.pods[at.pod], at.name, err))
		}
	}
}

// changedDirty has those volumes looked at that are wanted in another way than before.
// The caller holds mu.
func (l *loop) changedDirty(before population) {
	for name, v := range l.want.volumes {
		if before.volumes[name] != v {
			l.dirty[name] = true
		}
	}
	for name := range before.volumes {
		if l.want.volumes[name] == nil {
			l.dirty[name] = true
		}
	}
}

// remountChanged: what follows its pod is set up again when that has changed. The caller
// holds mu.
func (l *loop) remountChanged(before population) {
	for uid, pod := range l.want.pods {
		if old := before.pods[uid]; old != nil && old != pod && !reflect.DeepEqual(old, pod) {
			l.remountOf(pod)
		}
	}
}

// hastenWriters: what failed for pods that only read may do for one that writes. The
// caller holds mu.
func (l *loop) hastenWriters(before population) {
	for op := range l.retry {
		now, then := l.want.volumes[op.volume], before.volumes[op.volume]
		if op.verb == mountDevice && now.hasWriter() && !then.hasWriter() {
			delete(l.retry, op)
			l.dirty[op.volume] = true
		}
	}
}

// adopt gives what was found in a directory after a restart the name of what is wanted
// there, if it is the same or not known better: the specification that a plugin has
// recovered may lack what the name depends on. It reports whether there was any. The
// caller holds mu.
func (l *loop) adopt() (renamed bool) {
	var others []podDir
	for dir, name := range l.have.dirs.all() {
		if as := l.want.places.in(dir); as != "" && as != name {
			others = append(others, dir)
		}
	}
	for _, dir := range others {
		renamed = l.adoptIn(dir) || renamed
	}
	return renamed
}

// adoptIn is adopt for one directory. A volume that something is being done about gets
// its other name when that has ended.
func (l *loop) adoptIn(dir podDir) (renamed bool) {
	name, as := l.have.dirs.get(dir), l.want.places.in(dir)
	if name == "" || as == "" || as == name {
		return false
	}
	if l.running[name] || l.running[as] {
		l.adoptable[dir] = true
		return false
	}
	found, want := l.have.volumes[name], l.want.volumes[as]
	if found.spec != nil && found.name != want.name {
		return false
	}
	l.have.rename(podKey{dir.pod, dir.name}, name, as, want)
	l.dirty[name], l.dirty[as] = true, true
	return true
}

// adoptLate is adopt for the directories that had to wait. The caller holds mu.
func (l *loop) adoptLate() {
	for dir := range maps.Clone(l.adoptable) {
		delete(l.adoptable, dir)
		l.adoptIn(dir)
	}
}

// rename moves a pod's part of a volume to another one.
func (w actualWorld) rename(key podKey, from, to v1.UniqueVolumeName, want *desiredVolume) {
	old := *w.volumes[from]
	pod := old.pods.get(key)
	old.pods = old.pods.without(key)
	w.put(from, &old)
	v := w.volumes[to]
	if v == nil {
		v = &actualVolume{plugin: want.plugin, name: want.name, spec: want.spec, traits: want.traits, lastPod: key}
		v.assume()
	}
	moved := *v
	moved.pods = v.pods.with(key, pod.as(uncertain))
	w.put(to, &moved)
}

// cancelUnwanted ends what is being brought up for nobody. The caller holds mu.
func (l *loop) cancelUnwanted() {
	for name, f := range l.flights {
		want := l.want.volumes[name]
		unwanted := want == nil || f.verb == setUp && want.pods.get(f.pod) == nil
		if isUp(f.verb) && unwanted && !l.want.keep[f.user] {
			f.cancelled = true
			f.cancel(errUnwanted)
		}
	}
}

// forgetFailures drops what failed for pods that are gone: their next namesakes begin
// anew. The caller holds mu.
func (l *loop) forgetFailures() {
	gone := func(name v1.UniqueVolumeName, pod podKey) bool {
		v := l.want.volumes[name]
		return v == nil || pod.name != "" && v.pods.get(pod) == nil
	}
	for op := range l.retry {
		if isDown(op.verb) && !l.isThere(failureKey{op.volume, op.pod}) { // it has another name now
			delete(l.retry, op)
		}
		if !isDown(op.verb) && gone(op.volume, op.pod) {
			delete(l.retry, op)
		}
		if op.verb == expand && l.isGrown(op.volume) {
			delete(l.retry, op)
			delete(l.failures, failureKey{volume: op.volume})
		}
	}
	for key := range l.failures {
		if gone(key.volume, key.pod) && !l.isThere(key) {
			delete(l.failures, key)
		}
	}
	for key := range l.waits {
		if gone(key.volume, key.pod) {
			delete(l.waits, key)
		}
	}
	for key := range l.told {
		if gone(key.volume, key.pod) {
			delete(l.told, key)
		}
	}
	for key := range l.revisions {
		if l.want.pods[key.pod] == nil && len(l.have.dirs[key.pod]) == 0 { // it may come back
			delete(l.revisions, key)
		}
	}
}

// isThere reports whether the volume is, or may be, there; or its part of a pod. The caller
// holds mu.
func (l *loop) isThere(key failureKey) bool {
	have := l.have.volumes[key.volume]
	return have != nil && (key.pod.name == "" || have.stateOf(key.pod) != absent)
}

// isGrown reports whether the volume is as large as it is wanted, perhaps because that is
// less now. The caller holds mu.
func (m *Manager) isGrown(name v1.UniqueVolumeName) bool {
	want, have := m.want.volumes[name], m.have.volumes[name]
	return want != nil && have != nil && !have.isSmaller(want)
}

// MarkRemountRequired has SetUp called again for the volumes of a pod whose content
// follows something else (volume.RemountVolumePlugin), which has changed. That the pod
// itself has changed the manager sees by itself.
func (m *Manager) MarkRemountRequired(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pod := m.want.pods[pod]; pod != nil {
		m.remountOf(pod)
		m.poke()
	}
}

// remountOf is for one pod. The caller holds mu.
func (m *Manager) remountOf(pod *v1.Pod) {
	for _, v := range pod.Spec.Volumes {
		if at, ok := m.want.places.named(podVolume{pod.UID, v.Name}); ok {
			m.remountAt(at)
		}
	}
}

func (m *Manager) remountAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, places := range m.want.places {
		for _, at := range places {
			m.remountAt(at.place)
		}
	}
}

// remountAt gives a pod's volume a new revision, if it follows something.
func (m *Manager) remountAt(at place) {
	if m.want.volumes[at.volume].traits.remount {
		m.revisions[at.key]++
		m.dirty[at.volume] = true
	}
}

func (m *Manager) hasRemounts() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.want.remounts
}

func sortedVolumes[V any](m map[podVolume]V) []podVolume {
	return slices.SortedFunc(maps.Keys(m), func(a, b podVolume) int {
		return cmp.Or(strings.Compare(string(a.pod), string(b.pod)), strings.Compare(a.name, b.name))
	})
}
