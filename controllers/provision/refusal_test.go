package provision_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unfit is the refusal of storage that the claim cannot have.
var unfit = &provision.RefusalError{Err: fmt.Errorf("the copy is empty: %w", volume.ErrInfeasible)}

// TestRefusedStorage: storage that the Provisioner refuses is deleted, and the claim is provisioned again after a
// pause. A refusal without a volume leaves the outcome open.
func TestRefusedStorage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.on("provision", failing(1, unfit, true))
		w.storage.on("delete", failing(1, errors.New("busy"), false))
		w.createClass(newClass("c"))
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.start()
		w.wait(time.Minute)
		require.Empty(w, w.storage.names())
		require.Contains(w, w.eventsOf("ProvisioningFailed")[0], "the copy is empty")
		require.Empty(w, w.volumes())
		require.Equal(w, 2, w.storage.callsOf("delete"))
		require.Equal(w, 1, w.storage.callsOf("provision"), "it is retried rarely")
		w.wait(10 * time.Minute)
		w.bind()
		require.Equal(w, []string{name}, w.storage.names())
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		w.deleteClaim("a")
		w.finish()
		w.checkNothingLeft()
	})
	inWorld(t, func(w *world) {
		w.config.Provisioner = withoutVolumes{w.storage}
		w.storage.on("provision", failing(1, unfit, true))
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(time.Minute)
		w.bind()
		require.Contains(w, w.eventsOf("ProvisioningFailed")[0], "no volume with the refusal")
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		require.Zero(w, w.storage.callsOf("delete"))
	})
}

// TestRefusedBesideOtherVolume: a claim becomes bound to another volume during its Provision. Its storage is refused, has no
// data, and is deleted.
func TestRefusedBesideOtherVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.on("provision", func(context.Context, string) (early, late error) {
			time.Sleep(time.Minute)
			return nil, unfit
		})
		w.createClass(newClass("c"))
		claim := w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(time.Second)
		w.createVolume("other", claim, func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
		})
		w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "other" })
		claim = w.claim("a")
		claim.Status.Phase = v1.ClaimBound
		_, err := w.cluster.PersistentVolumeClaims(namespace).UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
		require.NoError(w, err)
		w.wait(time.Hour)
		require.Empty(w, w.storage.names())
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
	})
}

// withoutVolumes is a storage that returns no volume with an error.
type withoutVolumes struct{ *storage }

func (s withoutVolumes) Provision(ctx context.Context, o provision.Options) (*v1.PersistentVolume, error) {
	pv, err := s.storage.Provision(ctx, o)
	if err != nil {
		pv = nil
	}
	return pv, err
}

// TestRefusedDataStays: storage that the Provisioner or the API server refuses is not deleted if the claim was bound
// or the object of the volume is stored.
func TestRefusedDataStays(t *testing.T) {
	refuseObjects := apitest.Fault{Call: apitest.Call{Verb: apitest.Create, Resource: "persistentvolumes"}, Failure: refusal}
	for name, interfere := range map[string]func(*world, string){
		"stored, with the mark of a tenant": func(w *world, _ string) {
			w.storage.on("provision", failing(1<<30, unfit, true))
			w.updateClaim("a", func(c *v1.PersistentVolumeClaim) {
				c.Annotations[provision.DiscardAnnotation] = "ended x"
				c.Finalizers = append(c.Finalizers, provision.ClaimFinalizer)
			})
		},
		"without the object": func(w *world, name string) {
			w.storage.on("provision", failing(1<<30, unfit, true))
			w.loseObject(name)
		},
		"the object is refused": func(w *world, name string) {
			w.server.Inject(refuseObjects)
			w.loseObject(name)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.createClass(newClass("c"))
				name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
				_, end := w.start()
				w.wait(time.Minute)
				w.bind()
				end()
				interfere(w, name)
				w.start()
				w.wait(24 * time.Hour)
				require.Zero(w, w.storage.callsOf("delete"))
				require.Equal(w, []string{name}, w.storage.names())
				require.NotEmpty(w, w.eventsOf("ProvisioningFailed"))
				require.NotContains(w, w.claim("a").Annotations, provision.DiscardAnnotation)
			})
		})
	}
}

// loseObject deletes the object of a bound volume by force, and gives its claim the finalizer.
func (w *world) loseObject(name string) {
	w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
	require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
	w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Finalizers = append(c.Finalizers, provision.ClaimFinalizer) })
}

// TestBoundDuringDiscard: a claim that is bound when the controller marks it keeps its storage.
func TestBoundDuringDiscard(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.on("provision", failing(1<<30, unfit, true))
		w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Resource: "persistentvolumeclaims"}, Latency: time.Minute})
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(90 * time.Second)
		require.Equal(w, 1, w.storage.callsOf("provision"))
		claim := w.claim("a")
		claim.Status.Phase = v1.ClaimBound
		_, err := w.cluster.PersistentVolumeClaims(namespace).UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
		require.NoError(w, err)
		w.wait(24 * time.Hour)
		require.Zero(w, w.storage.callsOf("delete"))
		require.Len(w, w.storage.names(), 1)
	})
}
