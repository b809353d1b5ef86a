package recycler

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Event is a Kubernetes event about a pod of the recycler. Its texts are the cluster's.
type Event struct {
	Volume    string // the persistent volume's name
	VolumeUID types.UID
	Namespace string // of the pod
	Pod       string
	PodUID    types.UID

	Type    string // "Normal" or "Warning"
	Reason  string // "FailedMount"
	Message string
	Time    time.Time
}

// forwardedEvents records the forwarded events by UID with their counts: a new watch reports old
// events again.
type forwardedEvents map[types.UID]int32

func (r *run) forward(event *v1.Event) {
	if r.config.Recorder == nil || event.InvolvedObject.UID != r.uid || r.events.contains(event) {
		return
	}
	if r.events == nil {
		r.events = forwardedEvents{}
	}
	if event.UID != "" {
		r.events[event.UID] = event.Count
	}
	r.config.Recorder(Event{
		Volume: r.pv.Name, VolumeUID: r.pv.UID,
		Namespace: r.asked.Namespace, Pod: r.asked.Name, PodUID: r.uid,
		Type: event.Type, Reason: event.Reason, Message: event.Message, Time: when(event),
	})
}

func (t forwardedEvents) contains(event *v1.Event) bool {
	count, ok := t[event.UID]
	return ok && event.UID != "" && event.Count <= count
}

func when(event *v1.Event) time.Time {
	switch {
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	}
	return event.FirstTimestamp.Time
}
