package protect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/protect"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var deleteNow = metav1.DeleteOptions{}

// TestEphemeral: each ephemeral volume of a pod receives a claim, by one call.
func TestEphemeral(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		pod := w.createPod(withEphemeral(newPod("pod", "named"), "a", "b"))
		w.wait(time.Second)
		claim := w.claim("pod-a")
		require.True(w, metav1.IsControlledBy(claim, pod))
		require.True(w, *claim.OwnerReferences[0].BlockOwnerDeletion)
		require.Equal(w, map[string]string{"label": "a"}, claim.Labels)
		require.Equal(w, map[string]string{"annotation": "a"}, claim.Annotations)
		require.NotNil(w, w.claim("pod-b"))
		require.Nil(w, w.claim("named"))
		require.Equal(w, []string{"create persistentvolumeclaims default/pod-a", "create persistentvolumeclaims default/pod-b"}, w.calls())
		require.Equal(w, map[string]int{protect.EphemeralCreateTotal: 2}, w.metrics.Take())
		w.ends[0]()
		w.start()
		w.wait(time.Hour)
		require.Empty(w, w.calls())
		require.Empty(w, w.events)
	})
}

// TestEphemeralClaimIsDeleted: the claim of a pod on a node stays; the claim of a pod without a node is
// created again. The claim of a pod in deletion is not.
func TestEphemeralClaimIsDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.createPod(withEphemeral(newPod("pod"), "a"))
		w.wait(time.Second)
		first := w.claim("pod-a").UID
		w.deleteClaim("pod-a")
		w.wait(time.Second)
		second := w.claim("pod-a").UID
		require.NotEqual(w, first, second)
		require.NoError(w, w.server.BindPod(namespace, "pod", "node"))
		w.deleteClaim("pod-a")
		w.wait(time.Hour)
		require.Equal(w, second, w.claim("pod-a").UID)
		w.deletePod("pod", 30)
		w.wait(time.Hour)
		require.Equal(w, second, w.claim("pod-a").UID, "the node has not shut the pod down")
		w.deletePod("pod", 0)
		w.wait(time.Second)
		require.Nil(w, w.claim("pod-a"))
	})
}

// TestPodWaitsForItsClaim: the claim of a pod that was shut down goes, also if a finalizer of the pod waits
// for it.
func TestPodWaitsForItsClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		pod := onNode(withEphemeral(newPod("pod"), "a"))
		pod.Finalizers = []string{"example.com/wait"}
		w.createPod(pod)
		w.wait(time.Second)
		w.deleteClaim("pod-a")
		require.NotNil(w, w.claim("pod-a"))
		w.deletePod("pod", 0)
		w.wait(time.Second)
		require.Nil(w, w.claim("pod-a"))
	})
}

// TestNameOfAnotherClaim: a claim that the pod does not own is not used and not changed. The pod has one
// event, and receives its claim when the other claim is gone, or owns it when the owner changes.
func TestNameOfAnotherClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		other := w.createClaim("pod-a")
		w.start()
		w.createPod(withEphemeral(newPod("pod"), "a", "b"))
		w.wait(time.Hour)
		require.Equal(w, other.ResourceVersion, w.claim("pod-a").ResourceVersion)
		require.Nil(w, w.claim("pod-b"))
		require.Equal(w, []string{
			"pod Warning FailedBinding: ephemeral volume a: claim default/pod-a was not created for pod default/pod: the pod is not the owner",
		}, w.events)
		require.Empty(w, w.calls())
		w.deleteClaim("pod-a")
		w.wait(time.Second)
		require.NotEqual(w, other.UID, w.claim("pod-a").UID)
		require.NotNil(w, w.claim("pod-b"))
	})
}

// TestOwnerChanges: a pod whose claim has another owner goes on when it becomes the owner.
func TestOwnerChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClaim("pod-a")
		w.start()
		pod := w.createPod(withEphemeral(newPod("pod"), "a", "b"))
		w.wait(time.Second)
		require.Nil(w, w.claim("pod-b"))
		isTrue := true
		w.updateClaim("pod-a", func(c *v1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &isTrue}}
		})
		w.wait(time.Second)
		require.NotNil(w, w.claim("pod-b"))
	})
}

// TestFailedCreation: a creation that fails is retried, with an event. One that took effect and failed, or
// that another controller made, is no failure.
func TestFailedCreation(t *testing.T) {
	inWorld(t, func(w *world) {
		w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Create}, Failure: apitest.InternalError, Times: 1})
		w.start()
		w.createPod(withEphemeral(newPod("pod"), "a"))
		w.wait(time.Second)
		require.NotNil(w, w.claim("pod-a"))
		require.Len(w, w.events, 1)
		require.Contains(w, w.events[0], "pod Warning FailedBinding: ephemeral volume a: create claim default/pod-a: Internal error")
		require.Equal(w, map[string]int{protect.EphemeralCreateTotal: 2, protect.EphemeralCreateFailuresTotal: 1}, w.metrics.Take())
	})
	inWorld(t, func(w *world) {
		w.start()
		w.server.InjectEvents(apitest.EventFault{Resource: "pods", Delay: time.Second})
		w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Delay: time.Hour})
		first := w.createPod(withEphemeral(newPod("pod"), "a"))
		claim := newClaim("pod-a")
		isTrue := true
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: first.UID, Controller: &isTrue}}
		_, err := w.cluster.PersistentVolumeClaims(namespace).Create(w.Context(), claim, metav1.CreateOptions{})
		require.NoError(w, err)
		w.wait(time.Minute)
		require.Equal(w, []string{"create persistentvolumeclaims default/pod-a", "get persistentvolumeclaims default/pod-a"}, w.calls())
		require.Empty(w, w.events)
	})
}

// TestUnseenForeignClaim: a claim of the name with another owner, which the cache never has, ends. The pod receives its
// claim.
func TestUnseenForeignClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		stop := w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Drop: true})
		foreign := w.createClaim("pod-a")
		w.createPod(withEphemeral(newPod("pod"), "a"))
		w.wait(time.Minute)
		w.endClaim("pod-a")
		stop()
		w.wait(5 * time.Minute)
		require.NotNil(w, w.claim("pod-a"))
		require.NotEqual(w, foreign.UID, w.claim("pod-a").UID)
	})
}

// TestUnseenClaimEnds: the claim of a pod ends before the cache has it. The pod receives another one.
func TestUnseenClaimEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		stop := w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Drop: true})
		w.createPod(withEphemeral(newPod("pod"), "a"))
		w.wait(time.Second)
		w.endClaim("pod-a")
		stop()
		w.wait(5 * time.Minute)
		require.NotNil(w, w.claim("pod-a"))
	})
}

// endClaim deletes a claim in spite of its finalizers.
func (w *world) endClaim(name string) {
	w.deleteClaim(name)
	w.updateClaim(name, func(claim *v1.PersistentVolumeClaim) { claim.Finalizers = nil })
	require.Nil(w, w.claim(name))
}
