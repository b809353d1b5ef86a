package kubeclient_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
)

// recorded returns a recorder on a fake clientset, and the channel of the events that it writes.
func recorded(t *testing.T) (func(api.Event), func(manager.Event), <-chan *v1.Event) {
	clientset := fake.NewClientset()
	events := make(chan *v1.Event, 1)
	clientset.PrependReactor("create", "events", func(action ktesting.Action) (bool, runtime.Object, error) {
		event := action.(ktesting.CreateAction).GetObject().(*v1.Event)
		events <- event
		return true, event, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	recorder := kubeclient.NewRecorder(ctx, clientset, v1.EventSource{Component: "volumekit", Host: "node-1"})
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "uid-of-node"}}
	return kubeclient.Events(recorder), kubeclient.ManagerEvents(recorder, node), events
}

func TestEvents(t *testing.T) {
	record, _, events := recorded(t)
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "1"}}
	record(api.Event{Object: claim, Type: v1.EventTypeWarning, Reason: "ProvisioningFailed", Message: "no space"})
	got := <-events
	require.Equal(t, v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "ns", Name: "claim", UID: "1"},
		got.InvolvedObject)
	require.Equal(t, "ns", got.Namespace)
	require.Equal(t, []string{v1.EventTypeWarning, "ProvisioningFailed", "no space"}, []string{got.Type, got.Reason, got.Message})
	require.Equal(t, v1.EventSource{Component: "volumekit", Host: "node-1"}, got.Source)
	record(api.Event{Type: v1.EventTypeNormal, Reason: "Nothing"}) // about no object: not recorded
	record(api.Event{Object: claim, Type: v1.EventTypeNormal, Reason: "ProvisioningSucceeded"})
	require.Equal(t, "ProvisioningSucceeded", (<-events).Reason)
}

// TestEventsOfAdapter: events reach the API server by a broadcaster of tools/events.
func TestEventsOfAdapter(t *testing.T) {
	clientset := fake.NewClientset()
	broadcaster := events.NewEventBroadcasterAdapter(clientset)
	stop := make(chan struct{})
	defer close(stop)
	broadcaster.StartRecordingToSink(stop)
	defer broadcaster.Shutdown()
	written, err := clientset.CoreV1().Events("").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer written.Stop()
	record := kubeclient.Events(broadcaster.DeprecatedNewLegacyRecorder("provisioner"))
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "1"}}
	record(api.Event{Object: claim, Type: v1.EventTypeWarning, Reason: "ProvisioningFailed", Message: "no space"})
	event := (<-written.ResultChan()).Object.(*v1.Event)
	require.Equal(t, []string{"claim", "ProvisioningFailed", "no space"}, []string{event.InvolvedObject.Name, event.Reason, event.Message})
}

// TestEventMessages: the API server refuses messages that are too long, and bytes that are no text.
func TestEventMessages(t *testing.T) {
	tests := map[string]struct{ message, want string }{
		"short":         {"mount failed", "mount failed"},
		"no text":       {"path \xff", "path \uFFFD"},
		"exact":         {strings.Repeat("a", 1024), strings.Repeat("a", 1024)},
		"long":          {strings.Repeat("a", 1025), strings.Repeat("a", 1021) + "..."},
		"long in runes": {strings.Repeat("é", 600), strings.Repeat("é", 510) + "..."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			record, _, events := recorded(t)
			record(api.Event{Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, Type: v1.EventTypeWarning, Reason: "FailedMount", Message: test.message})
			require.Equal(t, test.want, (<-events).Message)
		})
	}
}

func TestManagerEvents(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "1"}}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "2"}}
	spec := volume.NewSpecFromPersistentVolume(pv, false)
	tests := map[string]struct {
		event manager.Event
		want  v1.ObjectReference
	}{
		"about a pod":                  {manager.Event{Pod: pod, Spec: spec}, v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "pod", UID: "1"}},
		"about a volume":               {manager.Event{Spec: spec}, v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolume", Name: "pv", UID: "2"}},
		"about a pod of the past":      {manager.Event{PodUID: "3", Volume: "data"}, v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"}},
		"about an inline volume alone": {manager.Event{Spec: volume.NewSpecFromVolume(&v1.Volume{Name: "data"})}, v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, record, events := recorded(t)
			test.event.Type, test.event.Reason, test.event.Err = v1.EventTypeWarning, manager.FailedMount, errors.New("cause")
			test.event.Message = "set up: volume \"data\": cause"
			record(test.event)
			got := <-events
			require.Equal(t, test.want, got.InvolvedObject)
			require.Equal(t, manager.FailedMount, got.Reason)
			require.Equal(t, test.event.Message, got.Message)
		})
	}
}
