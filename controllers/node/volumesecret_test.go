package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// csiVolumeOf returns a persistent volume with Secrets of the namespace ns.
func csiVolumeOf(c *v1.PersistentVolumeClaim, stage, publish string) *v1.PersistentVolume {
	pv := volumeOf(c)
	ref := func(name string) *v1.SecretReference { return &v1.SecretReference{Namespace: "ns", Name: name} }
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
		Driver: driver, VolumeHandle: pv.Name, NodeStageSecretRef: ref(stage), NodePublishSecretRef: ref(publish),
		NodeExpandSecretRef: ref(stage), ControllerPublishSecretRef: ref("controller"),
	}}
	return pv
}

// TestSecretsOfVolumes: the Secrets that a volume has for the node are readable as soon as the volume
// is, as long as a pod uses the volume, and no other Secret of the volume is.
func TestSecretsOfVolumes(t *testing.T) {
	inWorld(t, func(w *world) {
		data, more := claim("data", "pv-1"), claim("more", "pv-2")
		w.put(data, more, csiVolumeOf(data, "stage", "publish"), csiVolumeOf(more, "stage", "other"))
		w.put(secret("stage", "1"), secret("publish", "1"), secret("other", "1"), secret("controller", "1"))
		w.start()
		read := func(name string) error {
			_, err := w.GetSecret(w.Context(), "ns", name)
			return err
		}
		require.Error(t, read("stage"), "no pod")
		w.put(pod("a", byClaim("data")))
		w.settle()
		_, err := w.GetPersistentVolumeClaim(w.Context(), "ns", "data")
		require.NoError(t, err)
		_, err = w.GetPersistentVolume(w.Context(), "pv-1")
		require.NoError(t, err)
		require.NoError(t, read("stage"))
		require.NoError(t, read("publish"))
		require.Error(t, read("other"))
		require.Error(t, read("controller"))

		w.put(pod("b", byClaim("more")))
		w.settle()
		require.NoError(t, read("other"))
		w.remove(pod("a"))
		w.settle()
		require.NoError(t, read("stage"), "the other volume uses it, too")
		require.Error(t, read("publish"))
		require.False(t, apierrors.IsNotFound(read("publish")))
		w.remove(pod("b"))
		w.settle()
		require.Error(t, read("stage"))
		require.Equal(t, []string{"pods spec.nodeName=node-1"}, w.watched())
	})
}

// TestChangedSecretOfVolume: the change is read, and makes no pod remount: the driver has the Secret of
// the time of the call.
func TestChangedSecretOfVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		data := claim("data", "pv-1")
		w.put(data, csiVolumeOf(data, "stage", "publish"), secret("stage", "1"), pod("a", byClaim("data")))
		w.start()
		w.put(secret("stage", "2"), secret("publish", "2"))
		w.settle()
		got, err := w.GetSecret(w.Context(), "ns", "stage")
		require.NoError(t, err)
		require.Equal(t, "2", string(got.Data["key"]))
		w.news.Lock()
		defer w.news.Unlock()
		require.Empty(t, w.remounts)
	})
}

// TestSecretIsReadableWithItsVolume: a caller that waits for the volume reads its Secret at once, perhaps
// before the source has handled the change of the volume.
func TestSecretIsReadableWithItsVolume(t *testing.T) {
	for range 100 {
		inWorld(t, func(w *world) {
			data := claim("data", "pv-1")
			w.put(data, csiVolumeOf(data, "stage", "publish"), secret("stage", "1"), pod("a", byClaim("data")))
			w.server.Inject(apitest.Fault{Call: apitest.Call{Resource: "persistentvolumes"}, Latency: time.Hour})
			w.start()
			_, err := w.GetPersistentVolume(w.Context(), "pv-1")
			require.NoError(w, err)
			_, err = w.GetSecret(w.Context(), "ns", "stage")
			require.NoError(w, err)
		})
	}
}
