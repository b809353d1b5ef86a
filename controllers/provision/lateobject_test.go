package provision_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStoredWithTimeout: the creation of a volume takes effect at the API server and times out, while
// its claim is being deleted. Provision is not called again: its storage would have no object.
func TestStoredWithTimeout(t *testing.T) {
	timeout := func(verb apitest.Verb, resource string) apitest.Fault {
		return apitest.Fault{Call: apitest.Call{Verb: verb, Resource: resource}, Times: 1, Failure: apitest.ServerTimeout, AfterEffect: true}
	}
	release := func(w *world, name string) {
		w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Status.Phase = v1.VolumeReleased })
	}
	for name, interfere := range map[string]func(w *world, name string, answer func()){
		"the binder releases the volume": func(w *world, name string, _ func()) { release(w, name) },
		"the binder releases the volume, and the removal of the finalizer times out": func(w *world, name string, _ func()) {
			w.server.Inject(timeout(apitest.Patch, "persistentvolumeclaims"))
			release(w, name)
		},
		"a user removes the finalizer": func(w *world, name string, answer func()) {
			w.updateClaim("a", func(claim *v1.PersistentVolumeClaim) { claim.Finalizers = nil })
			answer()
			w.wait(5 * time.Minute)
			release(w, name)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.storage.on("provision", slowly(time.Minute))
				w.createClass(newClass("c"))
				claim := w.createClaim(newClaim("a", "c"))
				w.server.Inject(timeout(apitest.Create, "persistentvolumes"))
				answer := w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Get, Resource: "persistentvolumes", Identity: "provisioner"}, Failure: apitest.InternalError})
				w.start()
				w.wait(time.Second)
				w.deleteClaim("a")
				w.wait(time.Minute)
				interfere(w, "pvc-"+string(claim.UID), answer)
				answer()
				w.finish()
				require.Equal(w, 1, w.storage.callsOf("provision"))
				w.checkNothingLeft()
			})
		})
	}
}

// TestLateObject: another controller has stored, released and perhaps deleted the volume of a claim before
// a late call of Provision ends. The storage that the call may have made again gets an object of the
// policy that the volume had at its end.
func TestLateObject(t *testing.T) {
	for _, policy := range []v1.PersistentVolumeReclaimPolicy{v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRetain} {
		t.Run(string(policy), func(t *testing.T) { inWorld(t, func(w *world) { testLateObject(w, policy) }) })
	}
}

func testLateObject(w *world, policy v1.PersistentVolumeReclaimPolicy) {
	claim := w.beginLate()
	name := "pvc-" + string(claim.UID)
	w.createVolume(name, claim, func(*v1.PersistentVolume) {})
	w.wait(2 * time.Minute)
	w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Spec.PersistentVolumeReclaimPolicy = policy })
	synctest.Wait()
	w.endVolume(name)
	w.wait(time.Second)
	require.Equal(w, 2, w.storage.callsOf("provision"))
	w.finish()
	if policy == v1.PersistentVolumeReclaimDelete {
		w.checkNothingLeft()
		return
	}
	require.NotNil(w, w.volume(name))
	require.Equal(w, policy, w.volume(name).Spec.PersistentVolumeReclaimPolicy)
}

// beginLate begins a call of Provision that ends after the end of its claim, which it returns.
func (w *world) beginLate() *v1.PersistentVolumeClaim {
	w.storage.on("provision", slowly(time.Minute))
	w.config.DeletionGuard = func(context.Context, *v1.PersistentVolume) bool { return w.storage.callsOf("provision") > 1 }
	w.createClass(newClass("c"))
	claim := w.createClaim(newClaim("a", "c"))
	w.start()
	w.wait(time.Second)
	w.deleteClaim("a")
	w.updateClaim("a", func(claim *v1.PersistentVolumeClaim) { claim.Finalizers = nil })
	return claim
}

// TestUnseenLateObject: the cache never has the object that another controller has stored.
func TestUnseenLateObject(t *testing.T) {
	inWorld(t, func(w *world) {
		claim := w.beginLate()
		name := "pvc-" + string(claim.UID)
		stop := w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumes", Drop: true})
		w.createVolume(name, claim, func(*v1.PersistentVolume) {})
		w.wait(2 * time.Minute)
		w.endVolume(name)
		stop()
		w.finish()
		require.Equal(w, 2, w.storage.callsOf("provision"))
		w.checkNothingLeft()
	})
}

// TestLateObjectWithoutReference: the object loses its reference, and ends. The controller forgets its claim.
func TestLateObjectWithoutReference(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.UnguardedVolumes = true
		claim := w.beginLate()
		name := "pvc-" + string(claim.UID)
		w.createVolume(name, claim, func(*v1.PersistentVolume) {})
		w.wait(2 * time.Minute)
		w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef, pv.Status.Phase = nil, v1.VolumeAvailable })
		w.wait(time.Minute)
		w.endVolume(name)
		w.finish()
		require.Zero(w, w.last.Remembered())
	})
}

// endVolume deletes a volume's object without its storage.
func (w *world) endVolume(name string) {
	require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
	w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
	synctest.Wait()
	require.Nil(w, w.volume(name))
}
