package manager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// install makes a population the desired state of the world.
func (l *loop) install(want population) {
	l.mu.Lock()
	before := l.want
	l.want = want
	l.adopt()
	l.cancelUnwanted()
	l.forgetFailures()
	l.allDirty()
	l.tellAll()
	l.mu.Unlock()
	for at, err := range want.failed {
		if old := before.failed[at]; old == nil || old.Error() != err.Error() {
			l.config.Logger.Warn("volume cannot be set up", "pod", short(string(at.pod)), "volume", short(at.name), "err", err)
			l.config.Events(failedMount(want.pods[at.pod], at.name, err))
		}
	}
}

// adopt forgets what was found in directories and not known better, where a volume is
// wanted: setting that up finds out. The caller holds mu.
func (l *loop) adopt() {
	for dir, name := range l.have.dirs {
		wanted, ok := l.want.dirs[dir]
		if ok && wanted != name && l.have.volumes[name].spec == nil && !l.running[name] {
			l.have.drop(name)
		}
	}
}

// cancelUnwanted ends what is being brought up for nobody. The caller holds mu.
func (l *loop) cancelUnwanted() {
	for name, f := range l.flights {
		want := l.want.volumes[name]
		unwanted := want == nil || f.verb == setUp && want.pods[f.pod] == nil
		if isUp(f.verb) && unwanted && !l.want.keep[f.pod.pod] {
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

func (l *loop) revisionOf(key podKey) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revisions[key]
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
