package manager

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// whyWaits says what keeps a pod from its volume though nothing has failed, or nil.
func (p *planner) whyWaits(key podKey) error {
	v, ok := p.firstStep(key)
	switch {
	case p.want.pods.get(key) == nil:
		return nil
	case p.isAnother():
		return errAnother
	case !p.needsSetUp(key):
		return nil
	case p.isOccupied(key):
		return errOccupied
	case p.isOthers(key):
		return errOnePod
	case p.mustWaitForReaders(key):
		return errForReaders
	case ok && v == attach && p.isUnreported():
		return errUnreported
	}
	return nil
}

var (
	errAnother    = errors.New("a volume of the same name that was deleted since is still there, for pods that have to go first")
	errOccupied   = errors.New("another volume is in its directory")
	errOnePod     = errors.New("the volume is for one pod at a time, and already in use by another")
	errUnreported = errors.New("the volume has not been reported as in use yet")
)

// isAnother is that of the planner. The caller holds mu.
func (m *Manager) isAnother(name v1.UniqueVolumeName) bool {
	p := plannerOf(name, m.want.desiredWorld, m.have, m.schedule, time.Time{})
	return p.isAnother()
}

// whyWaits is that of the planner. The caller holds mu.
func (m *Manager) whyWaits(at place) error {
	p := plannerOf(at.volume, m.want.desiredWorld, m.have, m.schedule, time.Time{})
	err := p.whyWaits(at.key)
	if errors.Is(err, errOccupied) {
		other := m.have.dirs.get(podDir{at.key.pod, p.want.plugin, at.key.name})
		return fmt.Errorf("%w: %w", err, m.orInLine(other))
	}
	return err
}

// newWaits returns what is to be told of a volume: that a pod has to wait for it, once for
// each reason. The caller holds mu.
func (m *Manager) newWaits(name v1.UniqueVolumeName) (events []Event) {
	p := plannerOf(name, m.want.desiredWorld, m.have, m.schedule, time.Time{})
	for key, pod := range p.want.pods.all() {
		at := failureKey{name, key}
		err := p.whyWaits(key)
		if err == nil {
			delete(m.waits, at)
			continue
		}
		if !errors.Is(err, m.waits[at]) && !errors.Is(err, errForReaders) { // that was told when it failed
			event := failedMount(pod.pod, pod.outer, err)
			event.Unique, event.Plugin, event.Spec = name, p.want.plugin, pod.spec
			events = append(events, event)
		}
		m.waits[at] = err
	}
	return events
}
