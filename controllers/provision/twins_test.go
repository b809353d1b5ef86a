package provision_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// guardsOf returns the finalizers of a volume that keep it until its storage is deleted.
func guardsOf(pv *v1.PersistentVolume) []string {
	return slices.DeleteFunc(slices.Clone(pv.Finalizers), func(f string) bool { return f == volumeProtection })
}

// TestTwoControllersGuardVolume: of two controllers that guard a bound volume at the same time one adds its finalizer,
// also if the other one has another finalizer. The storage is deleted once the claim has ended, and the volume ends.
func TestTwoControllersGuardVolume(t *testing.T) {
	for _, other := range []string{provision.VolumeFinalizer, "kubernetes.io/pv-controller"} {
		inWorld(t, func(w *world) {
			w.createClass(newClass("c"))
			w.config.UnguardedVolumes = true
			name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
			_, end := w.start()
			w.wait(time.Second)
			w.bind()
			end()
			require.Empty(w, guardsOf(w.volume(name)))
			w.config.UnguardedVolumes = false
			w.server.ForgetCalls()
			remove := w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Name: name}, Latency: time.Second})
			w.startAs("first")
			w.config.VolumeFinalizer = other
			w.startAs("second")
			w.wait(time.Minute)
			remove()
			require.Len(w, guardsOf(w.volume(name)), 1)
			patches := w.server.Calls(apitest.Call{Verb: apitest.Patch, Name: name})
			require.Len(w, patches, 2, "both have tried")
			require.True(w, (patches[0].Err == nil) != (patches[1].Err == nil), "one is refused")

			require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
			w.finish()
			require.NotNil(w, w.volume(name))
			require.Zero(w, w.storage.callsOf("delete"))
			w.deleteClaim("a")
			w.finish()
			w.checkNothingLeft()
		})
	}
}

// TestTwoControllersGuardClaim: a controller that guards a claim after the claim was bound by the work of the other one
// leaves no finalizer and no storage.
func TestTwoControllersGuardClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClass(newClass("c"))
		w.server.InjectEvents(apitest.EventFault{Identity: "second", Resource: "persistentvolumeclaims", Delay: 90 * time.Minute, When: func(change watch.EventType, _ api.Object) bool {
			return change == watch.Modified
		}})
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "second", Verb: apitest.Patch, Name: "a"}, Latency: time.Hour, Times: 1})
		w.startAs("first")
		w.startAs("second")
		w.wait(time.Second)
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.wait(time.Minute)
		w.bind()
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
		w.wait(2 * time.Hour)
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
		require.Equal(w, []string{name}, w.storage.names())
		require.Equal(w, 1, w.storage.callsOf("provision"))
		require.Zero(w, w.storage.callsOf("delete"))
		w.deleteClaim("a")
		w.finish()
		w.checkNothingLeft()
	})
}

// TestTwoStorages: of two controllers with a storage each the later one deletes its own storage. A controller that
// knows the storage by another address deletes none.
func TestTwoStorages(t *testing.T) {
	uncertain := volume.AsUncertain(errors.New("the answer is lost"))
	for name, test := range map[string]struct {
		first, second string // the names of the systems
		calls         fault  // of the second one
		left          int    // volumes of the second one
	}{
		"two systems":                             {"one", "two", failing(0, nil, false), 0},
		"two systems, an uncertain call":          {"one", "two", failing(3, uncertain, true), 0},
		"two systems, an uncertain call, refused": {"one", "two", failing(1, &provision.RefusalError{Err: uncertain}, true), 0},
		"one system of two addresses":             {"one", "one", failing(0, nil, false), 1},
		"systems without names":                   {"", "", failing(0, nil, false), 1},
		"one without a name":                      {"one", "", failing(0, nil, false), 1},
		"the other one without a name":            {"", "two", failing(0, nil, false), 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.createClass(newClass("c"))
				first, second := w.storage, newStorage()
				first.system, second.system, second.server = test.first, test.second, "other"
				first.on("provision", slowly(30*time.Second))
				second.on("provision", func(ctx context.Context, name string) (early, late error) {
					time.Sleep(time.Minute)
					return test.calls(ctx, name)
				})
				second.on("delete", failing(1, uncertain, false))
				w.startAs("first")
				w.config.Provisioner = second
				w.startAs("second")
				w.wait(time.Second)
				name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
				w.finish()
				require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
				require.Equal(w, "server", w.volume(name).Spec.NFS.Server)
				require.Equal(w, []string{name}, first.names())
				require.Zero(w, first.callsOf("delete"))
				require.Len(w, second.names(), test.left)
				require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
				calls := second.callsOf("provision")
				require.NotZero(w, calls)
				w.wait(24 * time.Hour)
				require.Equal(w, calls, second.callsOf("provision"))
			})
		})
	}
}

// inTwoSystems runs a test with two controllers, each with a storage of its own, which provision for a claim at the same
// time. The first one stores its volume.
func inTwoSystems(t *testing.T, test func(w *world, first, second *storage, name string)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.createClass(newClass("c"))
		first, second := w.storage, newStorage()
		first.system, second.system, second.server = "one", "two", "other"
		first.on("provision", slowly(30*time.Second))
		second.on("provision", slowly(time.Minute))
		w.startAs("first")
		w.config.Provisioner = second
		w.startAs("second")
		w.wait(time.Second)
		test(w, first, second, "pvc-"+string(w.createClaim(newClaim("a", "c")).UID))
	})
}

// TestHalfDeletedSecond: a second storage whose deletion has failed is provisioned again before it is stored.
func TestHalfDeletedSecond(t *testing.T) {
	inTwoSystems(t, func(w *world, _, second *storage, name string) {
		second.on("delete", failing(3, volume.AsUncertain(errors.New("the answer is lost")), true))
		w.wait(time.Minute + 100*time.Millisecond) // in the pause after the failure
		require.Equal(w, 1, second.callsOf("delete"))
		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
		w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
		w.finish()
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		if w.volume(name).Spec.NFS.Server == second.server {
			require.Equal(w, []string{name}, second.names())
		}
	})
}

// TestRefusedSecond: a second storage that is refused is deleted, also by a controller that has not seen the object of the
// first one.
func TestRefusedSecond(t *testing.T) {
	inTwoSystems(t, func(w *world, first, second *storage, name string) {
		w.server.InjectEvents(apitest.EventFault{Identity: "second", Resource: "persistentvolumes", Delay: time.Hour})
		refuse := failing(1, unfit, true)
		second.on("provision", func(ctx context.Context, name string) (early, late error) {
			time.Sleep(time.Minute)
			return refuse(ctx, name)
		})
		w.finish()
		require.Equal(w, []string{name}, first.names())
		require.Empty(w, second.names())
		require.Equal(w, 1, second.callsOf("provision"), "it is deleted without another call")
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
	})
}

// TestUndescribedSecond: a second storage is deleted although the call that was to describe it again, after a discard of
// the first one, has failed.
func TestUndescribedSecond(t *testing.T) {
	inTwoSystems(t, func(w *world, first, second *storage, name string) {
		first.on("provision", failing(1, unfit, true))
		first.on("delete", slowly(2*time.Minute))
		fails := failing(1, volume.AsTransient(errors.New("busy")), false)
		second.on("provision", func(ctx context.Context, name string) (early, late error) {
			if second.callsOf("provision") == 1 {
				return slowly(time.Minute)(ctx, name)
			}
			time.Sleep(10 * time.Minute) // the first one stores its volume
			return fails(ctx, name)
		})
		w.wait(90 * time.Second)
		require.Equal(w, []string{name}, second.names())
		w.finish()
		require.Equal(w, first.server, w.volume(name).Spec.NFS.Server)
		require.Equal(w, []string{name}, first.names())
		require.Empty(w, second.names())
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
	})
}

// TestSecondStorageIsReadLast: storage that waits for its deletion as a second one stays if its volume is stored meanwhile.
func TestSecondStorageIsReadLast(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClass(newClass("c"))
		second := newStorage()
		w.storage.system, second.system, second.server = "one", "two", "other"
		w.storage.on("provision", slowly(30*time.Second))
		second.on("provision", slowly(time.Minute))
		_, end := w.startAs("first")
		w.config.Provisioner, w.config.Calls = second, 1
		w.startAs("second")
		w.wait(time.Second)
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.wait(40 * time.Second)
		end()
		w.createClaim(newClaim("b", "c")) // its call has the permission next
		w.wait(30 * time.Second)
		pv := w.volume(name)
		require.Equal(w, w.storage.server, pv.Spec.NFS.Server)
		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
		w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
		pv.ObjectMeta = metav1.ObjectMeta{Name: name, Annotations: map[string]string{volume.StorageAnnotation: second.system}}
		pv.Spec.NFS.Server = second.server
		_, err := w.cluster.PersistentVolumes().Create(w.Context(), pv, metav1.CreateOptions{})
		require.NoError(w, err)
		w.finish()
		require.Contains(w, second.names(), name)
	})
}

// TestMarkOfAnotherStorage: a controller does not remove the mark by which one of another storage provisions again.
func TestMarkOfAnotherStorage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.system = "one"
		w.createClass(newClass("c"))
		name := w.storeWithoutStorage(apitest.Create)
		config := w.config
		second := newStorage()
		second.system, second.server = "two", "other"
		w.config.Provisioner = second
		w.startAs("second")
		w.finish()
		require.Empty(w, second.names())
		w.config = config
		w.startTwin("later", twin{})
		w.finish()
		require.Equal(w, []string{name}, w.storage.names())
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
	})
}

// TestLostStorageName: storage whose name has changed is not taken for a second one.
func TestLostStorageName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClass(newClass("c"))
		w.storage.system = "one"
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.start()
		w.wait(time.Second)
		w.bind()
		w.wait(time.Minute)
		w.storage.system = "a new name"
		w.updateClaim("a", func(claim *v1.PersistentVolumeClaim) {
			claim.Annotations[provision.DiscardAnnotation] = "ended x"
			claim.Finalizers = append(claim.Finalizers, provision.ClaimFinalizer)
		})
		w.finish()
		require.Equal(w, []string{name}, w.storage.names())
		require.Equal(w, 2, w.storage.callsOf("provision"))
	})
}
