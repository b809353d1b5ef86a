package protect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/protect"
	v1 "k8s.io/api/core/v1"
)

// reservedFor returns a volume that the binder has reserved for a claim.
func reservedFor(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	pv := newVolume("pv")
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	return pv
}

// TestVolumePhases: a volume in deletion goes unless it is bound, by one patch.
func TestVolumePhases(t *testing.T) {
	for phase, stays := range map[v1.PersistentVolumePhase]bool{
		v1.VolumePending: false, v1.VolumeAvailable: false, v1.VolumeBound: true, v1.VolumeReleased: false, v1.VolumeFailed: false,
	} {
		inWorld(t, func(w *world) {
			w.createVolume(newVolume("pv"))
			w.setPhase("pv", phase)
			w.start()
			w.deleteVolume("pv")
			w.wait(time.Hour)
			require.Equal(w, stays, w.volume("pv") != nil, phase)
			if stays {
				require.Empty(w, w.calls())
				w.setPhase("pv", v1.VolumeReleased)
				w.wait(time.Second)
			}
			require.Nil(w, w.volume("pv"))
			require.Equal(w, []string{"patch persistentvolumes pv"}, w.calls())
		})
	}
}

// TestReleasedVolume: a volume that the binder has released goes without a read of its claim, unless the
// cache has the claim.
func TestReleasedVolume(t *testing.T) {
	for _, hasClaim := range []bool{false, true} {
		inWorld(t, func(w *world) {
			pv := reservedFor(w.createClaim("a"))
			if !hasClaim {
				pv.Spec.ClaimRef.UID = "gone"
			}
			w.createVolume(pv)
			w.setPhase("pv", v1.VolumeReleased)
			w.start()
			w.deleteVolume("pv")
			w.wait(time.Hour)
			require.Equal(w, hasClaim, w.volume("pv") != nil)
			for _, call := range w.calls() {
				require.Equal(w, "patch persistentvolumes pv", call)
			}
		})
	}
}

// TestVolumeBetweenTwoWrites: a volume in deletion stays while the binder may bind its claim to it, and
// goes when the claim is bound to another one or has ended.
func TestVolumeBetweenTwoWrites(t *testing.T) {
	for name, end := range map[string]func(*world){
		"the claim ends": func(w *world) { w.deleteClaim("a") },
		"the claim is bound to another volume": func(w *world) {
			w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "other" })
		},
	} {
		inWorld(t, func(w *world) {
			w.createVolume(reservedFor(w.createClaim("a")))
			w.start()
			w.deleteVolume("pv")
			w.wait(time.Hour)
			require.NotNil(w, w.volume("pv"), name)
			require.Empty(w, w.calls())
			end(w)
			w.wait(time.Second)
			require.Nil(w, w.volume("pv"), name)
		})
	}
}

// TestVolumeOfUnknownClaim: the claim that a volume refers to is read from the API server. A claim that the
// cache lacks keeps the volume.
func TestVolumeOfUnknownClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		release := w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Drop: true})
		w.createVolume(reservedFor(w.createClaim("a")))
		w.deleteVolume("pv")
		require.NotNil(w, w.volume("pv"))
		require.Equal(w, []string{"get persistentvolumeclaims default/a"}, w.calls())
		w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Finalizers = nil })
		require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "a", deleteNow))
		release()
		w.wait(10 * time.Second)
		require.Nil(w, w.volume("pv"))
	})
}

// TestVolumeIsBoundMeanwhile: the finalizer is removed from the version that was unused, and from no later
// one.
func TestVolumeIsBoundMeanwhile(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("pv"))
		w.start()
		defer w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Latency: time.Minute, Times: 1})()
		w.deleteVolume("pv")
		w.setPhase("pv", v1.VolumeBound)
		w.wait(time.Hour)
		require.NotNil(w, w.volume("pv"))
	})
}

// TestVolumeWithoutFinalizer: a volume that lost its finalizer receives it again.
func TestVolumeWithoutFinalizer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("pv"))
		w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Finalizers = []string{"example.com/other"} })
		w.start()
		require.ElementsMatch(w, []string{"example.com/other", protect.VolumeFinalizer}, w.volume("pv").Finalizers)
		require.Equal(w, []string{"patch persistentvolumes pv"}, w.calls())
	})
}

// TestReferenceToNoName: a reference without a namespace or a name keeps no volume.
func TestReferenceToNoName(t *testing.T) {
	for _, ref := range []v1.ObjectReference{{UID: "uid"}, {Namespace: namespace, UID: "uid"}, {Name: "a", UID: "uid"}} {
		inWorld(t, func(w *world) {
			pv := newVolume("pv")
			pv.Spec.ClaimRef = &ref
			w.createVolume(pv)
			w.start()
			w.deleteVolume("pv")
			w.wait(time.Minute)
			require.Nil(w, w.volume("pv"))
		})
	}
}
