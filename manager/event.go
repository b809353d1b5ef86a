package manager

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"

	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of events, as Kubernetes has them.
const (
	FailedAttachVolume      = "FailedAttachVolume"
	SuccessfulAttachVolume  = "SuccessfulAttachVolume"
	FailedDetachVolume      = "FailedDetachVolume"
	FailedMount             = "FailedMount"
	SuccessfulMountVolume   = "SuccessfulMountVolume"
	FailedMapVolume         = "FailedMapVolume"
	SuccessfulMapVolume     = "SuccessfulMapVolume"
	FailedUnMount           = "FailedUnMount"
	SuccessfulUnMountVolume = "SuccessfulUnMountVolume"
	FailedUnmapDevice       = "FailedUnmapDevice"
	VolumeResizeFailed      = "VolumeResizeFailed"
	VolumeResizeSuccessful  = "FileSystemResizeSuccessful"
	// VolumePermissionChangeInProgress reports a long change of the ownership of a volume's
	// files during set-up.
	VolumePermissionChangeInProgress = "VolumePermissionChangeInProgress"

	VolumeVanished = "VolumeVanished" // ours: unmounted by another process
	VolumeDetached = "VolumeDetached" // ours: detached by another program
	VolumeReplaced = "VolumeReplaced" // ours: covered or replaced by another mount
)

// An Event reports what happened to a volume, for users and for events of API objects.
type Event struct {
	Type   string // v1.EventTypeNormal or v1.EventTypeWarning
	Reason string // one of the constants
	// Message is one line, even if an error of a plugin or a server has several. It contains no
	// secret.
	Message string
	Err     error // cause of a warning

	// Pod is the pod of the event; nil for an event about no pod, or if only its UID is known.
	Pod    *v1.Pod
	PodUID types.UID
	// Volume is the name in the pod, if known.
	Volume string
	Unique v1.UniqueVolumeName
	Spec   *volume.Spec // nil: not known
	Plugin string
}

// serializeEvents returns a function that reports one event at a time and reduces each message to
// one line, so that an error text cannot forge lines of an agent's log. Nil discards events.
func serializeEvents(report func(Event)) func(Event) {
	if report == nil {
		return func(Event) {}
	}
	var mu sync.Mutex
	return func(e Event) {
		e.Message = oneline.Of(e.Message)
		mu.Lock()
		defer mu.Unlock()
		report(e)
	}
}

// reportSteps returns a receiver of the steps of a set-up. It reports a change of ownership as the kubelet does: in an
// event after 30 seconds, and then each minute. After stop it reports nothing: the event of the set-up is its last one.
func (m *Manager) reportSteps(j execution.Job) (receive func(progress.Report), stop func()) {
	var mu sync.Mutex
	stopped := false
	stop = func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
	return func(r progress.Report) {
		mu.Lock()
		defer mu.Unlock()
		if stopped || r.Step != progress.Ownership || r.Ended || !r.IsDue(30*time.Second, time.Minute) {
			return
		}
		m.config.Events(Event{
			Type: v1.EventTypeNormal, Reason: VolumePermissionChangeInProgress,
			Message: fmt.Sprintf("setting the ownership of volume %q%s: %d files so far", brief.Name(j.Spec.Name()), viewNote(j.Operation.Pod), r.Done),
			Pod:     j.ForPod, PodUID: j.Operation.Pod.Pod, Volume: j.OuterName, Unique: j.Volume, Spec: j.Spec, Plugin: j.PluginName,
		})
	}, stop
}

// eventOf returns the event of an operation: its first failure, a failure other than the
// last one, or a success.
func eventOf(out execution.Outcome, key naming.PodKey, before error) (Event, bool) {
	if out.Silent {
		return Event{}, false
	}
	if out.Err != nil && before != nil && before.Error() == out.Err.Error() {
		return Event{}, false
	}
	e := Event{
		Type: v1.EventTypeNormal, Reason: eventReason(out),
		Err: out.Err, Pod: out.Job.ForPod, PodUID: out.Operation.Pod.Pod,
		Volume: out.OuterName, Unique: out.Volume, Spec: out.Spec, Plugin: out.PluginName,
	}
	if e.Pod != nil {
		e.PodUID = e.Pod.UID
	}
	e.Message = fmt.Sprintf("%s: volume %q%s", out.Verb, brief.Name(out.ShownName()), viewNote(key))
	if out.Err != nil {
		e.Type = v1.EventTypeWarning
		e.Message += ": " + out.Err.Error()
	}
	again := out.Verb == operation.SetUp && out.After.StateOf(out.Operation.Pod) == actual.Present && out.Before.StateOf(out.Operation.Pod) == actual.Present
	return e, e.Reason != "" && !(out.Err == nil && again)
}

// failedMount returns the event of a volume for which no operation can start.
func failedMount(pod *v1.Pod, name string, err error) Event {
	return Event{
		Type: v1.EventTypeWarning, Reason: FailedMount, Err: err, Pod: pod, PodUID: pod.UID, Volume: name,
		Message: fmt.Sprintf("volume %q: %v", brief.Name(name), err),
	}
}

// eventsOf returns the events of an operation. The caller holds mu.
func (w *world) eventsOf(out execution.Outcome, before error) []Event {
	want := w.want.Volumes.Get(out.Volume)
	if operation.BringsUp(out.Verb) && out.Verb != operation.SetUp && len(want.PodsOrNone()) > 0 {
		if out.Err != nil {
			return w.eventsForAll(want, out)
		}
		w.dropEventTexts(want, out)
	}
	if event, ok := eventOf(out, out.Operation.Pod, before); ok {
		return []Event{event}
	}
	return nil
}

// eventsForAll returns an event for each pod of a failed shared step, unless the last event
// of the pod had the same text. Readers receive no event for ErrMountedForReaders.
func (w *world) eventsForAll(want *desired.Volume, out execution.Outcome) (events []Event) {
	text, forWriters := out.Err.Error(), errors.Is(out.Err, operation.ErrMountedForReaders)
	for key, pod := range want.Pods.All() {
		at := failureKey{out.Volume, key}
		if w.eventTexts[at] == text || forWriters && !want.IsWriter(key) {
			continue
		}
		w.eventTexts[at] = text
		out.Job.ForPod, out.OuterName, out.Spec = pod.Pod, pod.OuterName, pod.Spec
		if event, ok := eventOf(out, key, nil); ok {
			events = append(events, event)
		}
	}
	return events
}

func (w *world) dropEventTexts(want *desired.Volume, out execution.Outcome) {
	for key := range want.Pods.All() {
		delete(w.eventTexts, failureKey{out.Volume, key})
	}
}
