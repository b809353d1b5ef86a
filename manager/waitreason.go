package manager

import (
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/planning"
	v1 "k8s.io/api/core/v1"
)

// isRecreated reports whether the existing volume was deleted and another one created under its name.
func (s *snapshot) isRecreated(name v1.UniqueVolumeName) bool {
	p := planning.PlannerOf(name, s.want.World, s.have, s.schedule, time.Time{})
	return p.IsRecreated()
}

// waitReason returns why a pod waits for its volume without a failure, or nil. If another volume is
// in the way, the reason has the operation of that volume.
func (s *snapshot) waitReason(at naming.Place) error {
	p := planning.PlannerOf(at.Volume, s.want.World, s.have, s.schedule, time.Time{})
	err := p.WaitReason(at.Key)
	if errors.Is(err, planning.ErrOccupied) {
		other := s.have.Dirs.Get(naming.PodDir{Pod: at.Key.Pod, Plugin: p.Want.Plugin, Name: at.Key.Name})
		if !p.IsDirOccupied(at.Key) {
			other = p.PlaceOccupant()
		}
		return fmt.Errorf("%w: %w", err, s.progressOf(other))
	}
	return err
}

// waitEvents returns events of pods that have to wait for a volume, once for each reason. The
// caller holds mu.
func (w *world) waitEvents(name v1.UniqueVolumeName) (events []Event) {
	p := planning.PlannerOf(name, w.want.World, w.have, w.schedule, time.Time{})
	for key, pod := range p.Want.Pods.All() {
		at := failureKey{name, key}
		err := p.WaitReason(key)
		if err == nil {
			delete(w.waitReasons, at)
			continue
		}
		if !errors.Is(err, w.waitReasons[at]) && !errors.Is(err, operation.ErrMountedForReaders) { // was reported as a failure
			event := failedMount(pod.Pod, pod.OuterName, err)
			event.Unique, event.Plugin, event.Spec = name, p.Want.Plugin, pod.Spec
			events = append(events, event)
		}
		w.waitReasons[at] = err
	}
	return events
}
