package provision_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
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
