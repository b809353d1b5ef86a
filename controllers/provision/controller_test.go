package provision_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// TestLifeOfAClaim: a claim is provisioned, bound, deleted, and its storage is deleted with it.
func TestLifeOfAClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClass(newClass("c"))
		claim := w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(time.Second)
		name := "pvc-" + string(claim.UID)
		pv := w.volume(name)
		require.NotNil(w, pv)
		require.Equal(w, driver, pv.Annotations[provision.ProvisionedByAnnotation])
		require.Equal(w, "c", pv.Spec.StorageClassName)
		require.Equal(w, v1.PersistentVolumeReclaimDelete, pv.Spec.PersistentVolumeReclaimPolicy)
		require.Equal(w, claim.Spec.Resources.Requests, pv.Spec.Capacity)
		require.Contains(w, pv.Finalizers, provision.VolumeFinalizer)
		require.Equal(w, claim.UID, pv.Spec.ClaimRef.UID)
		require.Equal(w, "PersistentVolumeClaim", pv.Spec.ClaimRef.Kind)
		require.Equal(w, []string{name}, w.storage.names())
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
		require.Len(w, w.eventsOf("Provisioning"), 1)
		require.Len(w, w.eventsOf("ProvisioningSucceeded"), 1)
		require.Empty(w, w.eventsOf("ProvisioningFailed"))
		w.bind()
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		w.deleteClaim("a")
		w.bind()
		w.wait(time.Second)
		require.Empty(w, w.storage.names())
		w.bind()
		require.Empty(w, w.volumes())
		require.Equal(w, 1, w.storage.callsOf("provision"))
		require.Equal(w, 1, w.storage.callsOf("delete"))
	})
}

// A noting storage tells the user of each claim a fact about the volume.
type noting struct{ *storage }

func (n noting) Provision(ctx context.Context, o provision.Options) (*v1.PersistentVolume, error) {
	pv, err := n.storage.Provision(ctx, o)
	if err == nil {
		pv.Annotations = map[string]string{volume.ProvisioningNoteAnnotation: "slow\ntoday"}
	}
	return pv, err
}

// TestNote: the event of a success shows the note of the Provisioner.
func TestNote(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Provisioner = noting{w.storage}
		w.createClass(newClass("c"))
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.start()
		w.wait(time.Second)
		require.Equal(w, []string{"Normal ProvisioningSucceeded: provisioned volume " + name + ": slow today"}, w.eventsOf("ProvisioningSucceeded"))
	})
}

// TestCallsOfAClaim: the calls to the API server for one claim, from its creation to the deletion of
// its volume, apart from the watches.
func TestCallsOfAClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClass(newClass("c"))
		w.start()
		w.wait(time.Second)
		w.server.ForgetCalls()
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.wait(time.Second)
		w.bind()
		w.wait(time.Second)
		require.Equal(w, []string{
			"patch persistentvolumeclaims default/a",
			"create persistentvolumes " + name,
			"patch persistentvolumeclaims default/a",
		}, callsOf(w))
		w.deleteClaim("a")
		w.server.ForgetCalls()
		w.bind()
		w.wait(time.Second)
		w.bind()
		w.wait(time.Second)
		require.Equal(w, []string{
			"get persistentvolumeclaims default/a",
			"list pods default/",
			"get persistentvolumes " + name,
			"delete persistentvolumes " + name,
			"patch persistentvolumes " + name,
		}, callsOf(w))
		w.server.ForgetCalls()
		w.wait(24 * time.Hour)
		require.Empty(w, callsOf(w), "an idle controller makes no calls")
	})
}

func callsOf(w *world) (calls []string) {
	for _, call := range w.server.Calls(apitest.Call{}) {
		if call.Verb != apitest.Watch {
			calls = append(calls, call.String())
		}
	}
	return calls
}
