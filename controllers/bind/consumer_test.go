package bind_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// usePods gives the next controller a cache of pods.
func (w *world) usePods() {
	w.Helper()
	pods := api.NewCache(w.server.Connect("pods").Pods(""), api.CacheConfig{Consistent: true})
	w.config.Pods = pods
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()
	w.ends = append(w.ends, func() {
		cancel()
		require.NoError(w, <-ended)
	})
}

// messages records the texts of events in place of their reasons.
func (w *world) messages() {
	w.config.Events = func(e api.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e.Reason+": "+e.Message)
	}
}

// createLateClass creates a class that waits for the first consumer.
func (w *world) createLateClass(name string) {
	w.Helper()
	class, mode := newClass(name, "example.com/p"), storagev1.VolumeBindingWaitForFirstConsumer
	class.VolumeBindingMode = &mode
	w.createClass(class)
}

func newLateClaim(name string) *v1.PersistentVolumeClaim {
	claim := newClaim(name, "1Gi")
	*claim.Spec.StorageClassName = "late"
	return claim
}

// newUnscheduled returns a pod without a node that uses a claim.
func newUnscheduled(name, claim string) *v1.Pod {
	pod := newPod(name, claim, "")
	pod.Spec.NodeName = ""
	return pod
}

const (
	waitsForConsumer = "WaitForFirstConsumer: waiting for first consumer to be created before binding"
	waitsForPod      = "WaitForPodScheduled: waiting for pod "
)

// TestConsumers: the event of a claim that waits for its first consumer names the pods that use the claim and wait
// for a node.
func TestConsumers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createLateClass("late")
		w.usePods()
		w.messages()
		w.start()
		w.createClaim(newLateClaim("a"))
		w.wait(time.Minute)
		require.Equal(w, []string{waitsForConsumer}, w.reasons())
		w.createPod(newUnscheduled("two", "a"))
		w.wait(time.Minute)
		require.Equal(w, []string{waitsForPod + "two to be scheduled"}, w.reasons())
		w.createPod(newUnscheduled("one", "a"))
		w.createPod(newUnscheduled("other", "b"))
		w.createPod(newPod("scheduled", "a", ""))
		ephemeral := newUnscheduled("pod", "")
		ephemeral.Spec.Volumes[0] = v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: newLateClaim("").Spec},
		}}}
		w.createPod(ephemeral)
		w.wait(time.Minute)
		require.Equal(w, []string{"WaitForPodScheduled: waiting for pods one,two to be scheduled"}, w.reasons())
		w.createClaim(newLateClaim("pod-v"))
		w.wait(time.Minute)
		require.Equal(w, []string{waitsForPod + "pod to be scheduled"}, w.reasons())

		failed, err := w.cluster.Pods(namespace).Get(w.Context(), "one", metav1.GetOptions{})
		require.NoError(w, err)
		failed.Status.Phase = v1.PodFailed
		_, err = w.cluster.Pods(namespace).UpdateStatus(w.Context(), failed, metav1.UpdateOptions{})
		require.NoError(w, err)
		w.wait(time.Minute)
		require.Equal(w, []string{waitsForPod + "two to be scheduled"}, w.reasons())
		w.deletePod("two")
		w.wait(time.Minute)
		require.Equal(w, []string{waitsForConsumer}, w.reasons())

		w.createPod(newUnscheduled("three", "a"))
		w.wait(time.Minute)
		w.updateClaim("a", func(claim *v1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, provision.SelectedNodeAnnotation, "node")
		})
		w.wait(time.Minute)
		require.Equal(w, waitsForPod+"three to be scheduled", w.reasons()[0])
		w.server.ForgetCalls()
		w.createPod(newUnscheduled("four", "a"))
		w.wait(time.Minute)
		require.Empty(w, w.reasons(), "a node is selected")
		for _, call := range w.server.Calls(apitest.Call{Identity: "binder"}) {
			require.Equal(w, apitest.Watch, call.Verb, "a watch ends after some minutes, and is begun anew")
		}
	})
}

// TestConsumersAtStart: pods from before the start are in the first event, and without a cache of pods no event
// names one.
func TestConsumersAtStart(t *testing.T) {
	for _, hasPods := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.createLateClass("late")
			w.createClaim(newLateClaim("a"))
			w.createPod(newUnscheduled("pod", "a"))
			w.messages()
			want := waitsForConsumer
			if hasPods {
				w.usePods()
				want = waitsForPod + "pod to be scheduled"
			}
			w.start()
			w.wait(time.Minute)
			require.Equal(w, []string{want}, w.reasons())
		})
	}
}

// TestManyConsumers: the text of the event stays short, and is sent few times, for any number of pods.
func TestManyConsumers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createLateClass("late")
		w.usePods()
		w.messages()
		w.start()
		w.createClaim(newLateClaim("a"))
		for n := range 100 {
			w.createPod(newUnscheduled(fmt.Sprintf("pod-%03d", n), "a"))
			w.wait(time.Second)
		}
		events := w.reasons()
		require.LessOrEqual(w, len(events), 12)
		var names []string
		for n := range 10 {
			names = append(names, fmt.Sprintf("pod-%03d", n))
		}
		require.Equal(w, "WaitForPodScheduled: waiting for pods "+strings.Join(names, ",")+" and others to be scheduled", events[len(events)-1])
	})
}

// TestPodsOfOtherClaims: pods of claims that do not wait for a consumer cause no work and no event.
func TestPodsOfOtherClaims(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createLateClass("late")
		w.createVolume(newVolume("pv", "1Gi"))
		w.createClaim(newClaim("bound", "1Gi"))
		w.createClaim(newClaim("waiting", "9Gi"))
		w.usePods()
		w.messages()
		w.start()
		w.wait(time.Minute)
		w.reasons()
		for _, claim := range []string{"bound", "waiting", "missing", ""} {
			pod := newUnscheduled("pod-"+claim+"x", claim)
			if claim == "" {
				pod.Spec.Volumes = nil
			}
			w.createPod(pod)
		}
		w.wait(time.Minute)
		require.Empty(w, w.reasons())
	})
}

// TestPodReplacedByName: a pod that is created again with its name between two events counts.
func TestPodReplacedByName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createLateClass("late")
		w.usePods()
		w.messages()
		w.createPod(newUnscheduled("pod", "a"))
		w.start()
		w.createClaim(newLateClaim("a"))
		w.createClaim(newLateClaim("b"))
		w.wait(time.Minute)
		w.reasons()
		end := w.server.StartOutage("pods")
		w.server.CutWatches("pods")
		w.deletePod("pod")
		w.createPod(newUnscheduled("pod", "b"))
		end()
		w.wait(10 * time.Minute)
		require.ElementsMatch(w, []string{waitsForConsumer, waitsForPod + "pod to be scheduled"}, w.reasons())
	})
}

// TestSharedPods: controllers that share a cache of pods share its index.
func TestSharedPods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.usePods()
		w.config.Cluster = w.cluster
		for range 2 {
			_, err := bind.New(w.config)
			require.NoError(w, err)
		}
	})
}
