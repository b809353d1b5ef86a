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
	w.storage.on("provision", slowly(time.Minute))
	w.config.DeletionGuard = func(context.Context, *v1.PersistentVolume) bool { return w.storage.callsOf("provision") > 1 }
	w.createClass(newClass("c"))
	claim := w.createClaim(newClaim("a", "c"))
	name := "pvc-" + string(claim.UID)
	w.start()
	w.wait(time.Second)
	w.deleteClaim("a")
	w.updateClaim("a", func(claim *v1.PersistentVolumeClaim) { claim.Finalizers = nil })
	w.createVolume(name, claim, func(*v1.PersistentVolume) {})
	w.wait(2 * time.Minute)
	w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Spec.PersistentVolumeReclaimPolicy = policy })
	synctest.Wait()
	require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
	unprotectVolumes(w.Context(), w.cluster)
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
