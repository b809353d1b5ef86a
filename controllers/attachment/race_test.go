package attachment_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// replaceAttached ends a VolumeAttachment as another controller does that has detached its volume, and creates
// one of the same name, which that controller has attached again.
func (w *world) replaceAttached(name string) {
	w.Helper()
	if w.get(name).DeletionTimestamp == nil {
		w.delete(name)
	}
	w.update(name, func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
	require.Nil(w, w.get(name))
	next := newAttachment(name, "pv", "node")
	next.Finalizers = []string{finalizer}
	next.Annotations = map[string]string{attachment.NodeIDAnnotation: "id-node", attachment.VolumeHandleAnnotation: "disk"}
	w.create(next)
	w.setStatus(name, func(status *storagev1.VolumeAttachmentStatus) {
		status.Attached, status.AttachmentMetadata = true, map[string]string{"device": "/dev/sda"}
	})
}

// TestOldDeletion: a cache shows a VolumeAttachment in deletion, and the API server a later one of its name,
// whose volume is in use: it is not detached.
func TestOldDeletion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		w.storage.set(func(s *storage) { s.failures = []error{errors.New("in use")} })
		w.delete("a")
		w.Server.HoldEvents(identity)
		w.replaceAttached("a")
		w.asked()
		w.Wait(time.Hour)
		require.Empty(t, w.asked())
		require.Equal(t, attached, w.state("a"))
	})
}

// TestOldAttachment: a cache shows a VolumeAttachment to attach, and the API server none: no Attach follows,
// which nothing would detach.
func TestOldAttachment(t *testing.T) {
	for name, end := range map[string]func(*world){
		"ended": func(w *world) {
			w.delete("a")
			w.update("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
		},
		"unguarded": func(w *world) { w.update("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.storage.failures = []error{errors.New("no room")}
				w.start()
				w.add("a", "node")
				w.Server.HoldEvents(identity)
				end(w)
				w.asked()
				w.Took()
				w.Wait(time.Hour)
				if name == "ended" {
					require.Empty(t, w.asked())
					return
				}
				require.Equal(t, []string{readAttachment, readVolume, patchAttachment}, w.Took()[:3])
				require.Equal(t, []string{attach}, w.asked(), "after the finalizer")
				require.Equal(t, attached, w.state("a"))
			})
		})
	}
}

// TestOldVolume: a cache shows a volume with the finalizer, and the API server one that is being deleted: no
// Attach follows.
func TestOldVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addNode("node-2", "id-2")
		w.start()
		w.add("b", "node-2")
		w.Server.InjectEvents(apitest.EventFault{Identity: identity, Resource: "persistentvolumes", Drop: true})
		w.deleteVolume()
		w.asked()
		w.add("a", "node")
		w.Wait(time.Hour)
		require.Equal(t, `guarded disk to id-node, attach error "the PersistentVolume is being deleted"`, w.state("a"))
		require.Empty(t, w.asked())
	})
}

// TestEndDuringDetach: another controller ends a VolumeAttachment during a Detach, and a later one of the name
// is attached at that moment. The volume is attached again.
func TestEndDuringDetach(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		w.storage.set(func(s *storage) { s.delay = time.Minute })
		w.delete("a")
		w.replaceAttached("a")
		w.storage.set(func(s *storage) { s.delay = 0 })
		w.Wait(2 * time.Minute)
		require.Equal(t, []string{attach, detach, attach}, w.asked())
		require.Equal(t, attached, w.state("a"))
		require.Equal(t, []string{"disk to id-node"}, w.stored())
	})
}

// TestEndDuringSecondDetach: a Detach fails, and another controller ends the VolumeAttachment during the second one. A
// later VolumeAttachment of the name is attached at that moment. The volume is attached again.
func TestEndDuringSecondDetach(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		w.storage.set(func(s *storage) { s.failures = []error{errors.New("in use")} })
		w.delete("a")
		w.storage.set(func(s *storage) { s.delay = time.Minute })
		w.Wait(10 * time.Second)
		w.Server.HoldEvents(identity)
		w.replaceAttached("a")
		w.storage.set(func(s *storage) { s.delay = 0 })
		w.Wait(2 * time.Minute)
		require.Equal(t, []string{attach, detach, detach, attach}, w.asked())
		require.Equal(t, attached, w.state("a"))
		require.Equal(t, []string{"disk to id-node"}, w.stored())
	})
}

// TestEndDuringAttach: a user removes the finalizer of a VolumeAttachment during an Attach. The attached volume
// is reported.
func TestEndDuringAttach(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.delay = time.Minute
		w.start()
		w.add("a", "node")
		w.delete("a")
		w.update("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
		w.Wait(time.Hour)
		require.Equal(t, []string{attach}, w.asked())
		require.Equal(t, []string{
			"Warning UnexpectedAttachment: the storage has the volume attached to a node of this cluster without a VolumeAttachment: id-node",
		}, w.Announced())
	})
}

// TestNextOfName: a VolumeAttachment is created again with its name, at once after the end of the first one.
func TestNextOfName(t *testing.T) {
	for _, isHeld := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.start()
			w.add("a", "node")
			w.storage.set(func(s *storage) { s.delay = time.Second })
			w.delete("a")
			release := func() {}
			if isHeld {
				release = w.Server.HoldEvents(identity)
			}
			w.Wait(time.Second)
			require.Nil(t, w.get("a"))
			w.add("a", "node")
			w.Wait(time.Second)
			release()
			w.Wait(time.Minute)
			require.Equal(t, []string{attach, detach, attach}, w.asked())
			require.Equal(t, attached, w.state("a"))
		})
	}
}

// TestTwoControllers: two controllers that run by mistake leave a volume attached as long as its
// VolumeAttachment, and detached after that.
func TestTwoControllers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.startAs("second")
		for range 5 {
			w.add("a", "node")
			w.Wait(time.Minute)
			require.Equal(t, attached, w.state("a"))
			require.Equal(t, []string{"disk to id-node"}, w.stored())
			w.delete("a")
			w.Wait(time.Minute)
			require.Nil(t, w.get("a"))
			require.Empty(t, w.stored())
		}
	})
}

// TestTwoAttachments: of two VolumeAttachments for a volume and a node, the one that ends leaves the volume to
// the other one, and their calls are not concurrent.
func TestTwoAttachments(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		w.add("b", "node")
		w.asked()
		w.delete("a")
		require.Equal(t, "gone", w.state("a"))
		require.Empty(t, w.asked())
		require.Equal(t, []string{"disk to id-node"}, w.stored())
		w.storage.set(func(s *storage) { s.delay = time.Second })
		w.delete("b")
		w.add("a", "node")
		w.Wait(1500 * time.Millisecond)
		require.Equal(t, []string{detach}, w.asked())
		w.Wait(time.Minute)
		require.Equal(t, []string{attach}, w.asked())
		require.Equal(t, attached, w.state("a"))
	})
}

// TestTwoVolumes: two volumes with one handle are one volume of the storage, also on a node of another name.
func TestTwoVolumes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addVolume("pv-2", "disk")
		w.addNode("node-2", "id-node")
		w.start()
		w.add("a", "node")
		w.create(newAttachment("b", "pv-2", "node"))
		w.create(newAttachment("c", "pv", "node-2"))
		w.asked()
		w.delete("a")
		w.delete("b")
		require.Empty(t, w.asked())
		w.delete("c")
		require.Equal(t, []string{detach}, w.asked())
	})
}

// TestMovedPartner: the node of two VolumeAttachments has another ID. The one that was not attached moves, and
// leaves the volume attached for the other one.
func TestMovedPartner(t *testing.T) {
	inWorld(t, func(w *world) {
		lost := volume.AsUncertain(errors.New("lost"))
		w.storage.failures = []error{lost}
		w.start()
		w.add("a", "node")
		w.add("b", "node")
		require.Equal(t, attached, w.state("b"))
		w.storage.set(func(s *storage) { s.failures = []error{lost} })
		w.removeNode("node")
		w.asked()
		w.addNode("node", "id-2")
		w.Wait(time.Minute)
		require.Equal(t, []string{"attach disk to id-2"}, w.asked())
		w.delete("b")
		require.Equal(t, []string{detach}, w.asked())
		require.Equal(t, []string{"disk to id-2"}, w.stored())
	})
}

// TestUnguardedPartner: a VolumeAttachment without the finalizer would never detach the volume, and so does
// not take it over.
func TestUnguardedPartner(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		w.storage.set(func(s *storage) { s.delay = time.Hour })
		partner := newAttachment("b", "pv", "node")
		partner.Annotations = map[string]string{attachment.NodeIDAnnotation: "id-node", attachment.VolumeHandleAnnotation: "disk"}
		w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Name: "b"}, Failure: apitest.InternalError})
		w.create(partner)
		w.delete("a")
		w.Wait(2 * time.Hour)
		require.Contains(t, w.asked(), detach)
	})
}

// TestUnseenAttachment: the finalizer of a volume stays until the end of a VolumeAttachment that the cache never
// has, and goes after it.
func TestUnseenAttachment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		first := w.get("a").UID
		w.storage.set(func(s *storage) { s.failures = []error{errors.New("in use")} })
		w.delete("a")
		isLater := func(_ watch.EventType, object api.Object) bool { return object.GetUID() != first }
		w.Server.InjectEvents(apitest.EventFault{Identity: identity, Resource: "volumeattachments", When: isLater, Drop: true})
		release := w.Server.HoldEvents(identity)
		w.replaceAttached("a")
		w.Wait(time.Second) // the next Detach reads the later VolumeAttachment
		release()
		w.deleteVolume()
		w.Wait(time.Second)
		require.True(t, w.isVolumeGuarded())
		w.delete("a")
		w.update("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
		w.Wait(5 * time.Minute)
		require.Nil(t, w.volume())
	})
}

// TestConcurrentEnds: the finalizer of a volume that is being deleted stays while a VolumeAttachment is being
// attached, and goes after the last one.
func TestConcurrentEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.delay = time.Second
		w.start()
		w.add("a", "node")
		w.deleteVolume()
		w.Wait(500 * time.Millisecond)
		require.True(t, w.isVolumeGuarded())
		w.Wait(time.Second)
		require.Equal(t, attached, w.state("a"))
		w.delete("a")
		w.Wait(2 * time.Second)
		require.Nil(t, w.volume())
		require.Equal(t, []string{attach, detach}, w.asked())
	})
}

// TestMissingVolume: a VolumeAttachment waits for its volume, and for the end of an earlier one.
func TestMissingVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.deleteVolume()
		w.add("a", "node")
		require.Equal(t, `attach error "the PersistentVolume does not exist"`, w.state("a"))
		w.addVolume("pv", "disk")
		w.Wait(time.Millisecond)
		require.Equal(t, attached, w.state("a"))
	})
}

// TestDeletingVolume: a volume that is being deleted is not attached, and the VolumeAttachment ends at once.
func TestDeletingVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.updateVolume(func(pv *v1.PersistentVolume) { pv.Finalizers = append(pv.Finalizers, other) })
		w.deleteVolume()
		w.add("a", "node")
		require.Equal(t, `attach error "the PersistentVolume is being deleted"`, w.state("a"))
		w.delete("a")
		require.Equal(t, "gone", w.state("a"))
		require.Empty(t, w.asked())
	})
}

// TestLateDeletion: the cache shows a volume that is being deleted as one that is not.
func TestLateDeletion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.updateVolume(func(pv *v1.PersistentVolume) { pv.Finalizers = append(pv.Finalizers, other) })
		w.Server.InjectEvents(apitest.EventFault{Identity: identity, Resource: "persistentvolumes", Drop: true})
		w.deleteVolume()
		w.add("a", "node")
		w.Wait(time.Minute)
		require.Equal(t, `guarded disk to id-node, attach error "the PersistentVolume is being deleted"`, w.state("a"))
		require.Empty(t, w.asked())
		w.delete("a")
		require.Equal(t, []string{detach}, w.asked())
		require.Equal(t, "gone", w.state("a"))
	})
}

// TestVolumeOfOtherDriver: a volume of another driver is not attached.
func TestVolumeOfOtherDriver(t *testing.T) {
	inWorld(t, func(w *world) {
		foreign := newVolume("foreign", "disk")
		foreign.Spec.CSI.Driver = "other.example.com"
		_, err := w.Cluster.PersistentVolumes().Create(t.Context(), foreign, metav1.CreateOptions{})
		require.NoError(t, err)
		w.start()
		w.create(newAttachment("a", "foreign", "node"))
		require.Equal(t, `attach error "the volume belongs to another driver"`, w.state("a"))
		require.Empty(t, w.asked())
	})
}

// TestVolumeIsGone: a volume whose PersistentVolume was removed by force is detached by its recorded handle.
func TestVolumeIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		end := w.start()
		w.add("a", "node")
		end()
		w.removeVolume()
		w.start()
		w.delete("a")
		require.Equal(t, []string{attach, detach}, w.asked())
		require.Equal(t, "gone", w.state("a"))
		require.Equal(t, driver, w.storage.volumes[1].Spec.CSI.Driver)
	})
}

// TestVolumeWithoutRecord: without a volume and a recorded handle, as external-attacher leaves them, the
// finalizer stays until the volume is back.
func TestVolumeWithoutRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		end := w.start()
		w.add("a", "node")
		end()
		w.update("a", func(a *storagev1.VolumeAttachment) { delete(a.Annotations, attachment.VolumeHandleAnnotation) })
		w.removeVolume()
		w.start()
		w.delete("a")
		require.Contains(t, w.state("a"), `detach error "the PersistentVolume does not exist"`)
		w.addVolume("pv", "disk")
		w.Wait(time.Millisecond)
		require.Equal(t, "gone", w.state("a"))
		require.Equal(t, []string{attach, detach}, w.asked())
	})
}

// TestReplacedVolume: another volume takes the name of an attached one. The attached one is detached.
func TestReplacedVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		w.replaceVolume("disk-2")
		w.delete("a")
		require.Equal(t, []string{attach, detach}, w.asked())
		require.Equal(t, "gone", w.state("a"))
	})
}

// TestReplacedVolumeBeforeAttach: another volume takes the name of one with an unknown outcome.
func TestReplacedVolumeBeforeAttach(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures, w.storage.hasEffect = []error{volume.AsUncertain(errors.New("lost"))}, true
		w.start()
		w.add("a", "node")
		w.replaceVolume("disk-2")
		w.Wait(time.Minute)
		require.Equal(t, []string{attach, detach, "attach disk-2 to id-node"}, w.asked())
		require.Equal(t, []string{"disk-2 to id-node"}, w.stored())
		require.Equal(t, "guarded disk-2 to id-node, attached, device=/dev/sda", w.state("a"))
	})
}

// TestLongHandle: a long handle is recorded by its hash, which identifies the volume and does not name it.
func TestLongHandle(t *testing.T) {
	inWorld(t, func(w *world) {
		long := string(slices.Repeat([]byte{'x'}, 5000))
		w.replaceVolume(long)
		w.start()
		w.add("a", "node")
		recorded := w.get("a").Annotations[attachment.VolumeHandleAnnotation]
		require.Regexp(t, "^sha256:[0-9a-f]{64}$", recorded)
		require.True(t, w.get("a").Status.Attached)
		w.replaceVolume(recorded)
		w.delete("a")
		require.Equal(t, []string{"attach " + long + " to id-node"}, w.asked(), "a handle that looks like the hash is another one")
		w.replaceVolume(long)
		w.Wait(time.Minute)
		require.Equal(t, "gone", w.state("a"))
	})
}

// TestHandleOfUser: an annotation that a user has written to a VolumeAttachment of a volume without a handle
// causes no call for the volume of that handle.
func TestHandleOfUser(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Attacher = inTreeStorage{w.storage}
		inTree := newVolume("in-tree", "")
		inTree.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "server", Path: "/path"}}
		_, err := w.Cluster.PersistentVolumes().Create(t.Context(), inTree, metav1.CreateOptions{})
		require.NoError(t, err)
		w.start()
		hostile := newAttachment("a", "in-tree", "node")
		hostile.Annotations = map[string]string{attachment.NodeIDAnnotation: "id-node", attachment.VolumeHandleAnnotation: "disk"}
		w.create(hostile)
		require.Equal(t, "guarded  to id-node, attached, device=/dev/sda", w.state("a"))
		w.delete("a")
		require.Equal(t, "gone", w.state("a"))
		require.Equal(t, []string{"attach /path to id-node", "detach /path to id-node"}, w.asked())
	})
}

// An inTreeStorage has the paths of in-tree volumes as their handles.
type inTreeStorage struct{ *storage }

func translate(req attachment.Request) attachment.Request {
	req.Volume = newVolume(req.Volume.Name, req.Volume.Spec.NFS.Path)
	return req
}

func (s inTreeStorage) Attach(ctx context.Context, req attachment.Request) (map[string]string, error) {
	return s.storage.Attach(ctx, translate(req))
}

func (s inTreeStorage) Detach(ctx context.Context, req attachment.Request) error {
	return s.storage.Detach(ctx, translate(req))
}
