package provision_test

import (
	"context"
	"fmt"
	"strings"
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

// TestCallsOfUnguardedClaim: without the guard, a claim costs one call to the API server.
func TestCallsOfUnguardedClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.UnguardedClaims = true
		w.createClass(newClass("c"))
		w.start()
		w.wait(time.Second)
		w.server.ForgetCalls()
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.wait(time.Hour)
		require.Equal(w, []string{"create persistentvolumes " + name}, callsOf(w))
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

// countCalls returns the number of calls so far whose text begins with a prefix.
func countCalls(w *world, prefix string) (n int) {
	for _, call := range callsOf(w) {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

// TestNodeIsReadOnce: the check before the finalizer and the call of the same turn share the read.
func TestNodeIsReadOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		class := newClass("c")
		class.VolumeBindingMode = &consumer
		w.createClass(class)
		w.createNode("n", "a")
		w.createAttributes("gold", driver)
		w.start()
		w.wait(time.Second)
		w.server.ForgetCalls()
		claim, attributes := newClaim("a", "c"), "gold"
		claim.Annotations[provision.SelectedNodeAnnotation] = "n"
		claim.Spec.VolumeAttributesClassName = &attributes
		w.createClaim(claim)
		w.wait(time.Second)
		require.Len(w, w.volumes(), 1)
		require.Equal(w, 1, countCalls(w, "get nodes"))
		require.Equal(w, 1, countCalls(w, "get volumeattributesclasses"))
		require.Equal(w, "a", w.storage.made[0].SelectedNode.Labels["zone"])
		require.Equal(w, "9", w.storage.made[0].VolumeAttributesClass.Parameters["iops"])
	})
}

// createBurst creates claims of a class at the same time.
func (w *world) createBurst(n int) {
	w.Helper()
	w.createClass(newClass("c"))
	for n := range n {
		w.createClaim(newClaim(fmt.Sprint("claim-", n), "c"))
	}
}

// TestVolumesComeBeforeReleases: in a burst of claims the finalizers go after no claim waits for a
// worker any more.
func TestVolumesComeBeforeReleases(t *testing.T) {
	const claims, workers = 400, 128 + 8
	inWorld(t, func(w *world) {
		w.createBurst(claims)
		// All claims are queued before the first one has its finalizer.
		w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Resource: "persistentvolumeclaims"}, Latency: 10 * time.Millisecond})
		w.start()
		w.wait(time.Second)
		require.Len(w, w.volumes(), claims)
		patched, stored := map[string]bool{}, 0
		for _, call := range callsOf(w) {
			if strings.HasPrefix(call, "create persistentvolumes") {
				stored++
			}
			if strings.HasPrefix(call, "patch persistentvolumeclaims") {
				if patched[call] {
					break
				}
				patched[call] = true
			}
		}
		require.GreaterOrEqual(w, stored, claims-workers, "volumes before the first release")
		for n := range claims {
			require.NotContains(w, w.claim(fmt.Sprint("claim-", n)).Finalizers, provision.ClaimFinalizer)
		}
		w.server.ForgetCalls()
		w.wait(time.Hour)
		require.Empty(w, callsOf(w))
	})
}

// TestPostponedReleaseOfDeletedClaim: while other claims wait for workers, a claim in deletion loses its
// finalizer at once, and the others lose theirs after the longest postponement.
func TestPostponedReleaseOfDeletedClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Calls = 4
		w.createBurst(1000)
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "provisioner"}, Latency: time.Second})
		w.start()
		w.wait(10 * time.Second)
		w.bind()
		name := w.volumes()[0].Spec.ClaimRef.Name
		require.Contains(w, w.claim(name).Finalizers, provision.ClaimFinalizer)
		w.deleteClaim(name)
		w.wait(5 * time.Second)
		require.Nil(w, w.claim(name))
		w.wait(2 * time.Minute)
		require.Less(w, len(w.volumes()), 1000)
		old := 0
		for _, pv := range w.volumes() {
			if claim := w.claim(pv.Spec.ClaimRef.Name); claim != nil && time.Since(pv.CreationTimestamp.Time) > 75*time.Second {
				require.NotContains(w, claim.Finalizers, provision.ClaimFinalizer)
				old++
			}
		}
		require.NotZero(w, old)
	})
}

// TestReleaseDuringSlowCalls: while claims wait for the storage, a claim with its volume loses its
// finalizer at once.
func TestReleaseDuringSlowCalls(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Calls = 2
		w.storage.on("provision", slowly(time.Second))
		w.start()
		w.wait(time.Second)
		w.createBurst(100)
		w.wait(10*time.Second + time.Millisecond)
		require.Len(w, w.volumes(), 20)
		for _, pv := range w.volumes() {
			require.NotContains(w, w.claim(pv.Spec.ClaimRef.Name).Finalizers, provision.ClaimFinalizer)
		}
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
