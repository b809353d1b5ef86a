package manager

import (
	"cmp"
	"maps"
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
	l.setRevisions()
	l.adopt()
	l.cancelUnwanted()
	l.forgetFailures()
	l.allDirty()
	l.tellAll()
	l.mu.Unlock()
	for _, at := range sortedVolumes(want.failed) {
		err := want.failed[at]
		if old := before.failed[at]; old == nil || old.Error() != err.Error() {
			l.config.Logger.Warn("volume cannot be set up", "pod", short(string(at.pod)), "volume", short(at.name), "err", err)
			l.config.Events(failedMount(want.pods[at.pod], at.name, err))
		}
	}
}

// adopt gives what was found in a directory after a restart the name of what is wanted
// there, if it is the same or not known better: the specification that a plugin has
// recovered may lack what the name depends on. The caller holds mu.
func (l *loop) adopt() {
	for dir, name := range maps.Clone(l.have.dirs) {
		as, ok := l.want.dirs[dir]
		if !ok || as == name || l.running[name] || l.running[as] {
			continue
		}
		found, want := l.have.volumes[name], l.want.volumes[as]
		if found.spec == nil || found.name == want.name {
			l.have.rename(podKey{dir.pod, dir.name}, name, as, want)
		}
	}
}

// rename moves a pod's part of a volume to another one.
func (w actualWorld) rename(key podKey, from, to v1.UniqueVolumeName, want *desiredVolume) {
	old := *w.volumes[from]
	pod := old.pods[key]
	old.pods = maps.Clone(old.pods)
	delete(old.pods, key)
	w.put(from, &old)
	v := w.volumes[to]
	if v == nil {
		v = &actualVolume{plugin: want.plugin, name: want.name, spec: want.spec, traits: want.traits}
		v.assume()
	}
	moved := *v
	moved.pods = mapsWith(v.pods, key, pod.as(uncertain))
	w.put(to, &moved)
}

// cancelUnwanted ends what is being brought up for nobody. The caller holds mu.
func (l *loop) cancelUnwanted() {
	for name, f := range l.flights {
		want := l.want.volumes[name]
		unwanted := want == nil || f.verb == setUp && want.pods[f.pod] == nil
		if isUp(f.verb) && unwanted && !l.want.keep[f.pod.pod] {
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
		return v == nil || pod.name != "" && v.pods[pod] == nil
	}
	for op := range l.retry {
		if isUp(op.verb) && gone(op.volume, op.pod) {
			delete(l.retry, op)
		}
	}
	for key := range l.failures {
		if gone(key.volume, key.pod) && l.have.volumes[key.volume] == nil {
			delete(l.failures, key)
		}
	}
	for key := range l.revisions {
		if l.want.pods[key.pod] == nil {
			delete(l.revisions, key)
		}
	}
}

// setRevisions: what was marked while the population was under way counts, too. The
// caller holds mu.
func (l *loop) setRevisions() {
	for _, at := range l.want.places {
		l.want.volumes[at.volume].pods[at.key].revision = l.revisions[at.key]
	}
}

// MarkRemountRequired has SetUp called again for the volumes of a pod whose content
// follows something else (volume.RemountVolumePlugin), which has changed.
func (m *Manager) MarkRemountRequired(pod types.UID) {
	m.remount(func(at place) bool { return at.key.pod == pod })
	m.poke()
}

// remount gives the pods' volumes that follow something a new revision.
func (m *Manager) remount(which func(place) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.want.places {
		v := m.want.volumes[at.volume]
		if v == nil || !v.traits.remount || !which(at) {
			continue
		}
		m.revisions[at.key]++
		pod := *v.pods[at.key]
		pod.revision = m.revisions[at.key]
		v.pods[at.key] = &pod
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
