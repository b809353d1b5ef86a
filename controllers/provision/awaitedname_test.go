package provision_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestVolumeRemovedBeforeBinding: a claim whose provisioned volume loses its reference and is deleted before it was bound
// receives another volume, also if the cache has never had the volume with its reference.
func TestVolumeRemovedBeforeBinding(t *testing.T) {
	for name, unseen := range map[string]bool{"seen": false, "unseen": true} {
		for _, pause := range []time.Duration{0, time.Minute, time.Hour} {
			t.Run(name+" "+pause.String(), func(t *testing.T) {
				inWorld(t, func(w *world) {
					class := newClass("c")
					retain := v1.PersistentVolumeReclaimRetain
					class.ReclaimPolicy = &retain
					w.createClass(class)
					w.start()
					w.wait(time.Minute)
					hold := func() {}
					if unseen {
						hold = w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumes", Delay: 2 * time.Hour})
					}
					name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
					w.wait(time.Second)
					uid := w.volume(name).UID
					w.wait(pause)
					w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
					w.wait(pause)
					hold()
					w.server.Compact()
					w.server.CutWatches("")
					w.wait(pause)
					w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
					require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
					w.wait(3 * time.Hour)
					require.Len(w, w.volumes(), 1)
					require.NotEqual(w, uid, w.volume(name).UID)
					w.bind()
					require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
				})
			})
		}
	}
}
