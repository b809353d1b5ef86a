package bind_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/protect"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// refer makes a volume refer to a claim of the namespace.
func (w *world) refer(volume string, claim *v1.PersistentVolumeClaim) {
	w.Helper()
	w.updateVolume(volume, func(pv *v1.PersistentVolume) {
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	})
}

// TestConfirmedForOneClaim: the confirmation that a claim is gone releases no volume that refers to another
// claim meanwhile.
func TestConfirmedForOneClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("pv", "1Gi"))
		w.createClaim(newClaim("a", "1Gi"))
		w.start()
		w.wait(time.Minute)
		w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Delay: time.Hour, When: func(_ watch.EventType, object api.Object) bool {
			return object.GetName() == "b"
		}})
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Get, Name: "a"}, Latency: time.Minute})
		w.deleteClaim("a")
		w.wait(time.Second)
		w.refer("pv", w.createClaim(newClaim("b", "1Gi")))
		w.wait(10 * time.Minute)
		require.NotEqual(w, v1.VolumeReleased, w.volume("pv").Status.Phase)
		require.Equal(w, "b", w.volume("pv").Spec.ClaimRef.Name)
	})
}

// TestReferenceToNoName: a reference without a name is one to a claim that is gone.
func TestReferenceToNoName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		for name, ref := range map[string]v1.ObjectReference{
			"nameless": {Namespace: namespace, UID: "uid"}, "homeless": {Name: "a", UID: "uid"}, "empty": {UID: "uid"},
		} {
			pv := newVolume(name, "1Gi")
			pv.Spec.ClaimRef = &ref
			w.createVolume(pv)
		}
		w.wait(time.Minute)
		for _, name := range []string{"nameless", "homeless", "empty"} {
			require.Equal(w, v1.VolumeReleased, w.volume(name).Status.Phase, name)
		}
		require.Empty(w, w.server.Calls(apitest.Call{Identity: "binder", Verb: apitest.Get, Resource: "persistentvolumeclaims"}))
	})
}

// TestClaimDeletedBeforeItIsNamed: a claim whose deletion the cache does not show yet receives no volume.
func TestClaimDeletedBeforeItIsNamed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("pv", "1Gi"))
		w.createClaim(newClaim("a", "1Gi"))
		w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Delay: time.Minute})
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Name: "pv"}, Latency: time.Second, Times: 1})
		w.start()
		w.wait(time.Millisecond)
		require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "a", metav1.DeleteOptions{}))
		w.wait(10 * time.Minute)
		require.Empty(w, w.claim("a").Spec.VolumeName)
	})
}

// watchSharing counts the states of the claims in which more than one is bound, until count is called.
func (w *world) watchSharing() (count func() int) {
	w.Helper()
	watched, err := w.cluster.PersistentVolumeClaims(namespace).Watch(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	shared, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		bound := map[string]bool{}
		for event := range watched.ResultChan() {
			claim := event.Object.(*v1.PersistentVolumeClaim)
			delete(bound, claim.Name)
			if event.Type != watch.Deleted && claim.Status.Phase == v1.ClaimBound {
				bound[claim.Name] = true
			}
			if len(bound) > 1 {
				shared++
			}
		}
	}()
	return func() int {
		watched.Stop()
		<-done
		return shared
	}
}

// TestSlowStatus: while the status of a claim is being written, its volume is edited to refer to another
// claim. No two claims are bound to the volume at any time.
func TestSlowStatus(t *testing.T) {
	for _, isLost := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.createVolume(newVolume("pv", "1Gi"))
			w.createClaim(newClaim("a", "1Gi"))
			if isLost {
				w.start()
				w.wait(time.Minute)
				w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "x"} })
				w.wait(time.Minute)
				require.Equal(w, v1.ClaimLost, w.claim("a").Status.Phase)
			}
			w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Subresource: "status", Name: "a"}, Latency: time.Minute, Times: 1})
			if isLost {
				w.refer("pv", w.claim("a"))
			} else {
				w.start()
			}
			w.wait(30 * time.Second)
			w.refer("pv", w.createClaim(newClaim("b", "1Gi")))
			shared := w.watchSharing()
			w.wait(10 * time.Minute)
			require.Zero(w, shared())
			require.Equal(w, v1.ClaimLost, w.claim("a").Status.Phase)
			require.Equal(w, "Bound pv <- Bound b", w.state("b", "pv"))
		})
	}
}

// TestLostClaimComesFirst: a volume without a reference goes to the claim that has been bound to it, also to
// a Lost one, and to no other claim.
func TestLostClaimComesFirst(t *testing.T) {
	for _, lost := range []string{"a", "z"} {
		inWorld(t, func(w *world) {
			w.config.Workers = 1
			w.createVolume(newVolume("pv", "1Gi"))
			w.createClaim(newClaim(lost, "1Gi"))
			end := w.start()
			w.wait(time.Minute)
			w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "x"} })
			for n := range 8 { // in any order with the Lost one after the start
				w.createClaim(newClaim(fmt.Sprint("m", n), "1Gi"))
			}
			w.wait(time.Minute)
			require.Equal(w, v1.ClaimLost, w.claim(lost).Status.Phase)
			end()
			w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
			w.start()
			w.wait(time.Minute)
			require.Equal(w, "Bound pv <- Bound "+lost, w.state(lost, "pv"))
			w.deleteClaim(lost)
			w.wait(time.Minute)
			require.Equal(w, v1.VolumeReleased, w.volume("pv").Status.Phase)
		})
	}
}

// TestReferenceOfUsedVolumeRemoved: a volume whose claim has been bound to it is not Available without its
// reference, and is free only after the end of the claim.
func TestReferenceOfUsedVolumeRemoved(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("pv", "1Gi"))
		w.createClaim(newClaim("a", "1Gi"))
		w.start()
		w.wait(time.Minute)
		w.writes()
		reserve := apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Name: "pv"}, Failure: apitest.InternalError, Times: 1,
			When: func(call apitest.Call) bool { return call.Subresource == "" }}
		w.server.Inject(reserve)
		w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
		w.wait(time.Minute)
		require.Equal(w, []string{"patch s pv fails", "patch s pv"}, w.writes())
		require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))

		reserve.Times = 0 // until the end
		w.server.Inject(reserve)
		w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
		w.deleteClaim("a")
		w.wait(10 * time.Minute)
		require.Equal(w, v1.VolumeAvailable, w.volume("pv").Status.Phase)
	})
}

// TestUnboundVolumeInDeletion: a volume in deletion that refers to a claim and was never bound to it does not
// keep the claim, nor the claim the volume. The protection of volumes is that of package protect.
func TestUnboundVolumeInDeletion(t *testing.T) {
	block := v1.PersistentVolumeBlock
	tests := map[string]struct {
		change  func(*v1.PersistentVolume, *v1.PersistentVolumeClaim)
		isBound bool
	}{
		"fits": {func(*v1.PersistentVolume, *v1.PersistentVolumeClaim) {}, false},
		"reserved": {func(pv *v1.PersistentVolume, _ *v1.PersistentVolumeClaim) {
			pv.Annotations[bind.BoundByControllerAnnotation] = "yes"
		}, false},
		"too small": {func(pv *v1.PersistentVolume, _ *v1.PersistentVolumeClaim) {
			pv.Spec.Capacity = newVolume("", "1Mi").Spec.Capacity
		}, false},
		"another mode": {func(pv *v1.PersistentVolume, _ *v1.PersistentVolumeClaim) { pv.Spec.VolumeMode = &block }, false},
		"named":        {func(_ *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeName = "pv" }, false},
		"in deletion": {func(_ *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) {
			claim.Finalizers = []string{"example.com/f"}
		}, false},
		"provisioned": {func(pv *v1.PersistentVolume, _ *v1.PersistentVolumeClaim) {
			pv.Annotations[provision.ProvisionedByAnnotation] = "example.com/p"
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				pv, claim := newVolume("pv", "1Gi"), newClaim("a", "1Gi")
				test.change(pv, claim)
				claim = w.createClaim(claim)
				pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "a", UID: claim.UID}
				w.createVolume(pv)
				require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), "pv", metav1.DeleteOptions{}))
				if len(claim.Finalizers) > 1 {
					require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "a", metav1.DeleteOptions{}))
				}
				protection, err := protect.New(protect.Config{Cluster: w.server.Connect("protection")})
				require.NoError(w, err)
				ctx, cancel := context.WithCancel(w.Context())
				ended := make(chan error, 1)
				go func() { ended <- protection.Run(ctx) }()
				w.start()
				w.wait(10 * time.Minute)
				if test.isBound {
					require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
				} else {
					require.Nil(w, w.volume("pv"))
					require.NotEqual(w, v1.ClaimBound, w.claim("a").Status.Phase)
				}
				cancel()
				require.NoError(w, <-ended)
			})
		})
	}
}

// TestOwnerInDeletion: the volume of a claim in deletion that a pod uses is not given to another claim, also after a user
// has removed the reference and the annotation. The order of the binder's workers decides: each of 40 runs has its own.
func TestOwnerInDeletion(t *testing.T) {
	for range 40 {
		inWorld(t, func(w *world) {
			w.createVolume(newVolume("pv", "1Gi"))
			used := newClaim("a", "1Gi")
			used.Finalizers = []string{"example.com/used"}
			w.createClaim(used)
			w.start()
			w.wait(time.Minute)
			require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "a", metav1.DeleteOptions{}))
			w.updateClaim("a", func(claim *v1.PersistentVolumeClaim) { delete(claim.Annotations, bind.BindCompletedAnnotation) })
			w.createClaim(newClaim("b", "1Gi"))
			w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
			w.wait(10 * time.Minute)
			require.NotEqual(w, v1.ClaimBound, w.claim("b").Status.Phase)
		})
	}
}
