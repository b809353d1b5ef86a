package protect_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/protect"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUsedClaim: a claim in deletion stays while a pod on a node names it, at no cost, and goes with the
// pod, by one list and one patch.
func TestUsedClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClaim("a")
		w.createPod(onNode(newPod("pod", "a")))
		w.start()
		require.Empty(w, w.calls())
		w.deleteClaim("a")
		w.wait(time.Hour)
		require.Empty(w, w.calls())
		w.updatePodStatus("pod", func(pod *v1.Pod) { pod.Status.Phase = v1.PodSucceeded })
		w.wait(time.Hour)
		require.NotNil(w, w.claim("a"), "a finished pod keeps the claim")
		require.Empty(w, w.calls())
		w.deletePod("pod", 0)
		require.Nil(w, w.claim("a"))
		require.Equal(w, []string{"list pods default/", "patch persistentvolumeclaims default/a"}, w.calls())
		w.wait(time.Hour)
		require.Empty(w, w.calls())
	})
}

// TestDeniedPatch: a claim whose finalizer may not be removed has an event, once.
func TestDeniedPatch(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClaim("a")
		w.start()
		allow := w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Failure: apitest.Denied(403)})
		w.deleteClaim("a")
		w.wait(time.Hour)
		require.NotNil(w, w.claim("a"))
		require.Len(w, w.events, 1)
		require.Contains(w, w.events[0], `a Warning RequestDenied: `)
		require.Contains(w, w.events[0], `admission webhook "injected.example.com" denied the request`)
		allow()
		w.wait(time.Hour)
		require.Nil(w, w.claim("a"))
	})
}

// TestUnscheduledPod: a pod without a node keeps no claim.
func TestUnscheduledPod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClaim("a")
		w.createPod(newPod("pod", "a"))
		w.start()
		w.deleteClaim("a")
		require.Nil(w, w.claim("a"))
	})
}

// TestPodOutsideOfTheCache: a pod that the cache lacks keeps the claim, also if the API server's own cache
// lacks it. If the cache never shows the pod, the claim goes all the same.
func TestPodOutsideOfTheCache(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClaim("a")
		w.start()
		defer w.server.StaleLists(identity)()
		release := w.server.InjectEvents(apitest.EventFault{Resource: "pods", Drop: true})
		w.createPod(onNode(newPod("pod", "a")))
		w.deleteClaim("a")
		require.NotNil(w, w.claim("a"))
		require.Equal(w, []string{"list pods default/"}, w.calls())
		w.wait(10 * time.Second)
		require.NotNil(w, w.claim("a"))
		require.Equal(w, []string{"list pods default/"}, w.calls())
		w.deletePod("pod", 0)
		release()
		w.wait(10 * time.Second)
		require.Nil(w, w.claim("a"))
	})
}

// TestManyClaimsEnd: claims that end at the same time share lists of pods.
func TestManyClaimsEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		const claims = 100
		for n := range claims {
			w.createClaim(fmt.Sprint("claim-", n))
		}
		defer w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.List, Namespace: namespace}, Latency: time.Second})()
		w.start()
		for n := range claims {
			require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), fmt.Sprint("claim-", n), metav1.DeleteOptions{}))
		}
		w.wait(time.Minute)
		lists, patches := 0, 0
		for _, call := range w.calls() {
			if call == "list pods default/" {
				lists++
			} else {
				patches++
			}
		}
		require.Equal(w, claims, patches)
		require.LessOrEqual(w, lists, 8)
	})
}

// TestClaimWithoutFinalizer: a claim that lost its finalizer receives it again, and others stay.
func TestClaimWithoutFinalizer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClaim("a")
		w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Finalizers = []string{"example.com/other"} })
		w.start()
		require.ElementsMatch(w, []string{"example.com/other", protect.ClaimFinalizer}, w.claim("a").Finalizers)
		w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Finalizers = without(c.Finalizers, protect.ClaimFinalizer) })
		w.wait(time.Second)
		require.Contains(w, w.claim("a").Finalizers, protect.ClaimFinalizer)
		w.deleteClaim("a")
		require.Equal(w, []string{"example.com/other"}, w.claim("a").Finalizers)
		w.wait(time.Hour)
		require.Len(w, w.calls(), 4, "two additions, a list and a removal")
	})
}

// TestClaimOfTheSameName: the end of a claim never concerns a later claim of its name.
func TestClaimOfTheSameName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClaim("a")
		w.start()
		defer w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Latency: time.Minute, Times: 1})()
		w.deleteClaim("a")
		w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Finalizers = nil })
		require.Nil(w, w.claim("a"))
		second := w.createClaim("a")
		w.createPod(onNode(newPod("pod", "a")))
		w.wait(time.Hour)
		require.Equal(w, second, w.claim("a"))
	})
}

// TestPodReplaced: an update that hides the end of a pod behind a pod of the same name lets the claim of
// the first pod go.
func TestPodReplaced(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClaim("a")
		w.createPod(onNode(newPod("pod", "a")))
		w.start()
		w.deleteClaim("a")
		end := w.server.StartOutage(identity)
		w.deletePod("pod", 0)
		w.createPod(onNode(newPod("pod")))
		w.server.Compact()
		w.wait(time.Minute)
		end()
		w.wait(10 * time.Minute)
		require.Nil(w, w.claim("a"))
	})
}

// TestUnusedCondition: the condition of a bound claim follows its pods.
func TestUnusedCondition(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.ReportUnused = true
		w.createClaim("a")
		w.start()
		require.Empty(w, w.claim("a").Status.Conditions, "not bound")
		claim := w.claim("a")
		claim.Status.Phase = v1.ClaimBound
		_, err := w.cluster.PersistentVolumeClaims(namespace).UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
		require.NoError(w, err)
		status := func() v1.ConditionStatus {
			w.wait(time.Minute)
			conditions := w.claim("a").Status.Conditions
			require.Len(w, conditions, 1)
			require.EqualValues(w, protect.UnusedCondition, conditions[0].Type)
			return conditions[0].Status
		}
		require.Equal(w, v1.ConditionTrue, status())
		require.Equal(w, []string{"list pods default/", "patch persistentvolumeclaims/status default/a"}, w.calls())
		w.createPod(newPod("pod", "a"))
		require.Equal(w, v1.ConditionFalse, status())
		require.Equal(w, []string{"patch persistentvolumeclaims/status default/a"}, w.calls())
		w.updatePodStatus("pod", func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed })
		require.Equal(w, v1.ConditionTrue, status())
		w.createPod(onNode(newPod("second", "a")))
		require.Equal(w, v1.ConditionFalse, status())
		w.deletePod("second", 0)
		require.Equal(w, v1.ConditionTrue, status())
		w.calls()
		w.wait(time.Hour)
		require.Empty(w, w.calls())
		release := w.server.InjectEvents(apitest.EventFault{Resource: "pods", Drop: true})
		w.createPod(newPod("hidden", "a"))
		w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"l": "1"} })
		w.ends[0]()
		w.deletePod("hidden", 0)
		release()
		w.createPod(newPod("third", "a"))
		w.start()
		require.Equal(w, v1.ConditionFalse, status(), "after a start")
	})
}

// TestCachesOfTheEmbedder: the controller uses caches that the embedder runs, and a second controller uses
// the same.
func TestCachesOfTheEmbedder(t *testing.T) {
	inWorld(t, func(w *world) {
		cluster := w.server.Connect("embedder")
		w.config.Pods = api.NewCache(cluster.Pods(""), api.CacheConfig{})
		w.config.Claims = api.NewCache(cluster.PersistentVolumeClaims(""), api.CacheConfig{})
		w.config.Volumes = api.NewCache(cluster.PersistentVolumes(), api.CacheConfig{})
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		go func() { _ = w.config.Pods.Run(ctx) }()
		go func() { _ = w.config.Claims.Run(ctx) }()
		go func() { _ = w.config.Volumes.Run(ctx) }()
		w.createClaim("a")
		w.createPod(withEphemeral(newPod("pod"), "data"))
		end := w.start()
		require.NotNil(w, w.claim("pod-data"))
		end()
		w.start()
		w.deleteClaim("a")
		w.wait(time.Second)
		require.Nil(w, w.claim("a"))
		require.Empty(w, w.server.Calls(apitest.Call{Identity: identity, Verb: apitest.Watch}))
		synctest.Wait()
	})
}

// setBound writes the phase Bound to a claim.
func (w *world) setBound(name string) {
	claim := w.claim(name)
	claim.Status.Phase = v1.ClaimBound
	_, err := w.cluster.PersistentVolumeClaims(namespace).UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// unused returns the condition Unused of a claim.
func (w *world) unused(name string) string {
	for _, condition := range w.claim(name).Status.Conditions {
		if condition.Type == protect.UnusedCondition {
			return string(condition.Status)
		}
	}
	return ""
}

// TestUnusedOwner: a pod uses the claim of its ephemeral volume from the time at which it owns the claim.
func TestUnusedOwner(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.ReportUnused = true
		w.createClaim("pod-a")
		w.setBound("pod-a")
		w.start()
		pod := w.createPod(onNode(withEphemeral(newPod("pod"), "a")))
		w.wait(time.Second)
		require.Equal(w, "True", w.unused("pod-a"))
		isTrue := true
		w.updateClaim("pod-a", func(claim *v1.PersistentVolumeClaim) {
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &isTrue}}
		})
		w.wait(time.Hour)
		require.Equal(w, "False", w.unused("pod-a"))
	})
}

// TestUnusedLateStatus: a pod in deletion whose containers are reported late uses its claim.
func TestUnusedLateStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.ReportUnused = true
		w.createClaim("a")
		w.setBound("a")
		pod := onNode(newPod("pod", "a"))
		pod.Finalizers = []string{"example.com/wait"}
		w.createPod(pod)
		w.start()
		w.wait(time.Second)
		require.Equal(w, "False", w.unused("a"))
		w.deletePod("pod", 3600)
		w.wait(time.Second)
		require.Equal(w, "True", w.unused("a"))
		w.updatePodStatus("pod", func(pod *v1.Pod) {
			pod.Status.Phase = v1.PodRunning
			pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
		})
		w.wait(30 * time.Minute)
		require.Equal(w, "False", w.unused("a"))
	})
}
