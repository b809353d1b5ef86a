package attachment_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestChangedInGap: another program undoes a part of an attachment while no watch shows it.
func TestChangedInGap(t *testing.T) {
	for name, change := range map[string]func(*world){
		"finalizer": func(w *world) { w.update("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil }) },
		"status":    func(w *world) { w.setStatus("a", func(s *storagev1.VolumeAttachmentStatus) { s.Attached = false }) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start()
				end := w.gapAfterAdd("volumeattachments")
				require.Equal(t, attached, w.state("a"))
				change(w)
				end()
				w.Wait(time.Hour)
				require.Equal(t, attached, w.state("a"))
			})
		})
	}
}

// TestLostVolumeFinalizerInGap: a user removes the finalizer of the volume while no watch shows it.
func TestLostVolumeFinalizerInGap(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		end := w.Gap("persistentvolumes")
		w.add("a", "node")
		w.Wait(time.Second)
		require.Equal(t, attached, w.state("a"))
		require.True(t, w.isVolumeGuarded())
		w.updateVolume(func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
		end()
		w.Wait(time.Hour)
		require.True(t, w.isVolumeGuarded())
	})
}

// TestForeignError: another program writes an error to an attached VolumeAttachment.
func TestForeignError(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		w.Wait(time.Second)
		w.setStatus("a", func(s *storagev1.VolumeAttachmentStatus) {
			s.AttachError = &storagev1.VolumeError{Time: metav1.Now(), Message: "foreign"}
		})
		w.Wait(time.Hour)
		require.Equal(t, attached, w.state("a"))
	})
}

// gapAfterAdd begins a gap in which a VolumeAttachment that the cache has is attached.
func (w *world) gapAfterAdd(kind string) (end func()) {
	w.storage.set(func(s *storage) { s.delay = time.Second })
	remove := w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Resource: "volumeattachments", Identity: identity}, Failure: apitest.Unavailable})
	w.Wait(time.Minute)
	w.add("a", "node")
	end = w.Gap(kind)
	remove()
	w.Wait(10 * time.Minute)
	w.storage.set(func(s *storage) { s.delay = 0 })
	return end
}
