package bind_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUnseenClaim: a claim that the cache never has is bound, and its volume is released after its end.
func TestUnseenClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.wait(time.Minute)
		w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Drop: true})
		claim := w.createClaim(newClaim("a", "1Gi"))
		pv := newVolume("pv", "1Gi")
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID}
		w.createVolume(pv)
		w.wait(5 * time.Minute)
		require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
		w.deleteClaim("a")
		w.wait(5 * time.Minute)
		require.Equal(w, v1.VolumeReleased, w.volume("pv").Status.Phase)
	})
}

// TestUnseenVolume: a claim is lost after the end of a volume that the cache never has had.
func TestUnseenVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.wait(time.Minute)
		w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumes", Drop: true})
		claim := newClaim("a", "1Gi")
		claim.Spec.VolumeName, claim.Annotations[bind.BindCompletedAnnotation] = "pv", "yes"
		pv := newVolume("pv", "1Gi")
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "a"}
		w.createVolume(pv)
		claim = w.createClaim(claim)
		w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID = claim.UID })
		w.wait(5 * time.Minute)
		require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), "pv", metav1.DeleteOptions{}))
		w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
		w.wait(5 * time.Minute)
		require.Equal(w, v1.ClaimLost, w.claim("a").Status.Phase)
	})
}

// TestUnseenClaimOfReleasedVolume: a Released volume whose claim the cache never has is free after the end of the claim.
func TestUnseenClaimOfReleasedVolume(t *testing.T) {
	inRecyclable(t, func(w *world, r *slowRecycler) {
		end := w.releaseUnseen()
		w.wait(time.Minute)
		require.Equal(w, [2]int{0, 0}, r.counts())
		w.deleteClaim("late")
		end()
		w.wait(5 * time.Minute)
		require.Equal(w, [2]int{1, 1}, r.counts())
	})
}

// TestUnseenRival: a claim becomes bound after the claim that was bound to its volume, and that the cache never has, is
// Lost or has ended.
func TestUnseenRival(t *testing.T) {
	for name, ends := range map[string]bool{"lost": false, "ended": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start()
				w.createClaim(newClaim("b", "1Gi"))
				w.wait(time.Minute)
				stop := w.server.InjectEvents(apitest.EventFault{Drop: true})
				w.createPair("a", "pv")
				stop()
				stop = w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Drop: true})
				if ends { // before it can be Lost
					w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Name: "a"}, Failure: apitest.InternalError, Times: 3})
				}
				w.updateVolume("pv", func(pv *v1.PersistentVolume) {
					pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "b", UID: w.claim("b").UID}
				})
				w.wait(200 * time.Millisecond)
				if ends {
					w.deleteClaim("a")
				}
				stop()
				w.wait(5 * time.Minute)
				require.Equal(w, "Bound pv <- Bound b", w.state("b", "pv"))
			})
		})
	}
}

// createPair creates a claim and a volume that are bound to each other.
func (w *world) createPair(claimName, volumeName string) {
	claim := newClaim(claimName, "1Gi")
	claim.Spec.VolumeName, claim.Annotations[bind.BindCompletedAnnotation] = volumeName, "yes"
	claim = w.createClaim(claim)
	claim.Status.Phase = v1.ClaimBound
	claim, err := w.cluster.PersistentVolumeClaims(namespace).UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w, err)
	pv := newVolume(volumeName, "1Gi")
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: claimName, UID: claim.UID}
	pv = w.createVolume(pv)
	pv.Status.Phase = v1.VolumeBound
	_, err = w.cluster.PersistentVolumes().UpdateStatus(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
}
