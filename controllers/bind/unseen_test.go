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
