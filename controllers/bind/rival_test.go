package bind_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestLateStateOfBoundClaim: a state of a claim from before its binding, which comes late, does not hide that the
// claim has been bound: a volume that loses its reference receives no other claim.
func TestLateStateOfBoundClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		shared := w.watchSharing()
		w.start()
		w.createClaim(newClaim("a", "2Gi")) // the largest request is woken first
		w.createClaim(newClaim("b", "1Gi"))
		w.wait(time.Minute)
		w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Delay: 10 * time.Minute, When: func(_ watch.EventType, object api.Object) bool {
			return object.GetName() == "a"
		}})
		w.updateClaim("a", func(claim *v1.PersistentVolumeClaim) { claim.Labels = map[string]string{"k": "v"} })
		w.wait(5 * time.Minute)
		w.createVolume(newVolume("pv", "2Gi"))
		w.wait(time.Minute)
		require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
		w.wait(5 * time.Minute) // the state with the label has come, and no later one
		w.server.Inject(apitest.Fault{
			Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Name: "pv"}, Failure: apitest.InternalError, Times: 1,
			When: func(call apitest.Call) bool { return call.Subresource == "" },
		})
		w.unrefer("pv")
		w.wait(time.Hour)
		require.Zero(w, shared())
		require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
		require.Empty(w, w.claim("b").Spec.VolumeName)
	})
}

// TestEditBesideLateBinder: of two binders one does not answer, and the other one has not seen yet that a claim was
// bound. A user then makes the volume refer to another claim, or to none. No two claims are bound to the volume at any
// time.
func TestEditBesideLateBinder(t *testing.T) {
	for name, refersToOther := range map[string]bool{"another reference": true, "no reference": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				shared := w.watchSharing()
				w.start()
				w.startAs("second")
				w.createClaim(newClaim("a", "500Mi"))
				w.createClaim(newClaim("b", "1Gi")) // the largest request is woken first
				w.wait(time.Minute)
				w.server.InjectEvents(apitest.EventFault{Identity: "second", Resource: "persistentvolumeclaims", Delay: time.Hour})
				w.server.InjectEvents(apitest.EventFault{Identity: "second", Resource: "persistentvolumes", Drop: true, When: func(_ watch.EventType, object api.Object) bool {
					ref := object.(*v1.PersistentVolume).Spec.ClaimRef
					return ref != nil && ref.Name == "a"
				}})
				pv := newVolume("pv", "1Gi")
				pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "a"}
				w.createVolume(pv)
				w.wait(time.Minute)
				require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
				heal := w.server.StartOutage("binder")
				if refersToOther {
					w.refer("pv", w.claim("b"))
				} else {
					w.unrefer("pv")
				}
				w.wait(30 * time.Minute)
				heal()
				w.wait(3 * time.Hour)
				require.Zero(w, shared())
				if refersToOther {
					require.Equal(w, v1.ClaimLost, w.claim("a").Status.Phase)
					require.Equal(w, "Bound pv <- Bound b", w.state("b", "pv"))
				} else {
					require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
				}
			})
		})
	}
}

// TestMarkOfNoRecycling: a free volume with a mark that no recycling has written receives no claim, and does not
// keep the controller busy.
func TestMarkOfNoRecycling(t *testing.T) {
	inWorld(t, func(w *world) {
		pv := newVolume("pv", "1Gi")
		pv.Annotations["bind.volumekit.io/recycling"] = "of a user"
		w.createVolume(pv)
		w.createClaim(newClaim("a", "1Gi"))
		w.createClaim(newClaim("b", "1Gi"))
		w.start()
		w.wait(time.Minute)
		require.Contains(w, w.reasons(), "VolumeFailedRecycle")
		w.createVolume(newVolume("free", "2Gi"))
		w.wait(time.Minute)
		require.ElementsMatch(w, []v1.PersistentVolumeClaimPhase{v1.ClaimBound, v1.ClaimPending},
			[]v1.PersistentVolumeClaimPhase{w.claim("a").Status.Phase, w.claim("b").Status.Phase})
		w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Annotations = nil })
		w.wait(time.Minute)
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		require.Equal(w, v1.ClaimBound, w.claim("b").Status.Phase)
	})
}

// TestOwnPairsCostNoList: the rivals of claims whose volumes this run has made Bound are not read, also if the writes of
// their statuses fail.
func TestOwnPairsCostNoList(t *testing.T) {
	inWorld(t, func(w *world) {
		const pairs = 50
		w.start()
		w.wait(time.Minute)
		w.server.ForgetCalls()
		w.server.Inject(apitest.Fault{
			Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Resource: "persistentvolumeclaims", Subresource: "status"}, Share: 0.5, Failure: apitest.InternalError,
		})
		for n := range pairs {
			w.createVolume(newVolume(fmt.Sprint("pv-", n), "1Gi"))
			w.createClaim(newClaim(fmt.Sprint("claim-", n), "1Gi"))
		}
		w.wait(time.Hour)
		for n := range pairs {
			require.Equal(w, v1.ClaimBound, w.claim(fmt.Sprint("claim-", n)).Status.Phase)
		}
		require.Empty(w, w.server.Calls(apitest.Call{Identity: "binder", Verb: apitest.List}))
	})
}

// TestEndOfFinishedClaim: a claim ends while the phase of its volume is written. The controller forgets it.
func TestEndOfFinishedClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.wait(time.Second)
		w.server.Inject(apitest.Fault{
			Call:    apitest.Call{Verb: apitest.Patch, Resource: "persistentvolumes", Subresource: "status"},
			Latency: time.Minute, Times: 1,
		})
		w.createClaim(newClaim("a", "1Gi"))
		w.createVolume(newVolume("pv", "1Gi"))
		w.wait(30 * time.Second)
		w.deleteClaim("a")
		w.wait(time.Hour)
		require.Zero(w, w.last.Finishing())
	})
}
