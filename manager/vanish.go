package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// lookEvery is how often changes of the mount table have us look for volumes that have
// vanished: our own mounts change it, too.
const lookEvery = 250 * time.Millisecond

// watchTable tells the loop of changes of the mount table until ctx ends. Without it
// the resync finds what has vanished.
func (m *Manager) watchTable(ctx context.Context) {
	err := m.watch(ctx, func() {
		m.mu.Lock()
		m.tableChanged = true
		m.mu.Unlock()
		m.poke()
	})
	if err != nil && ctx.Err() == nil {
		m.config.Logger.Warn("changes of the mount table are not told; the resync finds them", "err", err)
	}
}

func (m *Manager) hasTableChanged() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tableChanged
}

// A mountOf is a mount that should be there.
type mountOf struct {
	path   string
	volume v1.UniqueVolumeName
	pod    podKey // empty: the one for all pods
}

// findVanished looks for mounts that somebody else has unmounted.
func (l *loop) findVanished(ctx context.Context, now time.Time) {
	if !l.hasTableChanged() || now.Before(l.looked.Add(lookEvery)) {
		return
	}
	l.looked = now
	for _, mnt := range l.shouldBeMounted() {
		mounted, err := l.config.Mounter.IsMountPoint(ctx, mnt.path)
		if errors.Is(err, fs.ErrNotExist) {
			mounted, err = false, nil
		}
		if err != nil {
			l.lookAgain()
			continue
		}
		if !mounted {
			l.noteVanished(mnt)
		}
	}
}

// lookAgain: one that could not be looked at may have vanished.
func (l *loop) lookAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tableChanged = true
}

// shouldBeMounted leaves out volumes that something is being done about: those are looked
// at when it has ended.
func (l *loop) shouldBeMounted() []mountOf {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tableChanged = false
	var all []mountOf
	for name, v := range l.have.volumes {
		if f := l.flights[name]; f != nil {
			f.lookAfter = true
			continue
		}
		if v.device == present && !v.traits.block {
			all = append(all, mountOf{path: v.deviceMountPath, volume: name})
		}
		for key, pod := range v.pods.all() {
			if pod.state == present && pod.mounted {
				all = append(all, mountOf{pod.path, name, key})
			}
		}
	}
	slices.SortFunc(all, func(a, b mountOf) int { return strings.Compare(a.path, b.path) })
	return all
}

func (l *loop) noteVanished(mnt mountOf) {
	l.mu.Lock()
	v := *l.have.volumes[mnt.volume]
	event := Event{Type: v1.EventTypeWarning, Reason: VolumeVanished, PodUID: mnt.pod.pod, Unique: mnt.volume, Spec: v.spec, Plugin: v.plugin,
		Message: fmt.Sprintf("nothing is mounted at %s any more: somebody else has unmounted it", mnt.path)}
	if mnt.pod.name == "" {
		v.device = uncertain
	} else {
		v.pods = v.pods.with(mnt.pod, v.pods.get(mnt.pod).as(uncertain))
		event.Pod = l.want.pods[mnt.pod.pod]
	}
	l.have.put(mnt.volume, &v)
	l.dirty[mnt.volume] = true
	l.tell(mnt.pod.pod)
	l.mu.Unlock()
	l.config.Logger.Warn("volume vanished", "volume", short(string(mnt.volume)), "path", mnt.path)
	l.config.Events(event)
}
