package kubeclient

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// NewRecorder returns a recorder that writes events to the API server until ctx ends. source is
// the component, and the node for the component of a node. The recorder does not block: it counts
// repeated events, limits the events of each object, and drops events that the API server does not
// accept in time.
func NewRecorder(ctx context.Context, clientset kubernetes.Interface, source v1.EventSource) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&corev1.EventSinkImpl{Interface: clientset.CoreV1().Events("")})
	context.AfterFunc(ctx, broadcaster.Shutdown)
	return broadcaster.NewRecorder(scheme.Scheme, source)
}

// Events returns the function that passes the events of controllers to a recorder: the Events of
// their configurations. The function drops an event without an object, and shortens a message of
// more than 1024 bytes. A program with a broadcaster of client-go's tools/events passes what
// DeprecatedNewLegacyRecorder of its EventBroadcasterAdapter returns.
func Events(recorder record.EventRecorder) func(api.Event) {
	return func(e api.Event) {
		if e.Object != nil {
			recorder.Event(e.Object, e.Type, e.Reason, limited(e.Message))
		}
	}
}

// ManagerEvents returns the function that passes the events of a node's volume manager to a
// recorder: [manager.Config].Events. The object of an event is the pod; without a pod it is the
// persistent volume, and without both it is the node. node must not be nil.
func ManagerEvents(recorder record.EventRecorder, node *v1.Node) func(manager.Event) {
	record := Events(recorder)
	return func(e manager.Event) {
		record(api.Event{Object: regarding(e, node), Type: e.Type, Reason: e.Reason, Message: e.Message})
	}
}

// regarding returns the object of an event.
func regarding(e manager.Event, node *v1.Node) runtime.Object {
	switch {
	case e.Pod != nil:
		return e.Pod
	case e.Spec != nil && e.Spec.PersistentVolume != nil:
		return e.Spec.PersistentVolume
	}
	// The kubelet's events of its node carry the name as the UID, and kubectl finds them by it.
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: types.UID(node.Name)}
}

// mostMessage is the length to which the API server limits the notes of events, in bytes.
const mostMessage = 1024

// limited returns a valid message of at most mostMessage bytes.
func limited(message string) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= mostMessage {
		return message
	}
	const more = "..."
	end := mostMessage - len(more)
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + more
}
