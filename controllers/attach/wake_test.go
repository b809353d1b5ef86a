package attach_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attach"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addForeign creates a VolumeAttachment as another program does.
func (w *world) addForeign(name, disk, node string) {
	w.Helper()
	_, err := w.Cluster.VolumeAttachments().Create(w.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &disk}},
	}, metav1.CreateOptions{})
	require.NoError(w, err)
	w.Wait(time.Second)
}

// removeAttachment removes a VolumeAttachment in spite of its finalizers.
func (w *world) removeAttachment(name string) {
	w.Helper()
	va, err := w.Cluster.VolumeAttachments().Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	if len(va.Finalizers) > 0 {
		va.Finalizers = nil
		_, err = w.Cluster.VolumeAttachments().Update(w.Context(), va, metav1.UpdateOptions{})
		require.NoError(w, err)
	}
	require.NoError(w, w.Cluster.VolumeAttachments().Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// replaceUnseen replaces a VolumeAttachment by another one of its name while no watch shows it.
func (w *world) replaceUnseen(name, disk, node string) {
	w.Helper()
	end := w.Gap("volumeattachments")
	w.removeAttachment(name)
	w.addForeign(name, disk, node)
	end()
	w.settle()
	w.Wait(time.Hour)
	w.settle()
}

// TestReplacedForeign: a foreign VolumeAttachment ends, and another one has its name, for another volume.
func TestReplacedForeign(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single, shared)
		w.start()
		w.addForeign("other", "single", "b")
		w.addPod("one", "a", "single")
		w.settle()
		require.Equal(t, "single attached to b", w.state())
		w.replaceUnseen("other", "shared", "b")
		require.Equal(t, "shared attached to b, single attached to a, single on a", w.state())
	})
}

// TestReplacedRoom: a VolumeAttachment of another node takes the name of one on a full node.
func TestReplacedRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		w.changeNode("a", func(n *v1.Node) {
			n.Status.Allocatable = v1.ResourceList{"attachable-volumes-csi-" + v1.ResourceName(driver): resource.MustParse("1")}
		})
		w.addDisks(single, shared)
		w.start()
		w.addForeign("other", "shared", "a")
		w.addPod("one", "a", "single")
		w.settle()
		require.Equal(t, "shared attached to a", w.state())
		w.replaceUnseen("other", "shared", "b")
		require.Equal(t, "shared attached to b, single attached to a, single on a", w.state())
	})
}

// manage makes a node managed, or ends that.
func (w *world) manage(name string, is bool) {
	w.Helper()
	w.changeNode(name, func(n *v1.Node) {
		n.Annotations = map[string]string{}
		if is {
			n.Annotations[managed] = "true"
		}
	})
}

// attachUnreported ends a controller between the attach of a plugin and the report, and frees the volume on a.
func (w *world) attachUnreported() {
	w.Helper()
	w.addDisks(plugged)
	end := w.start()
	remove := w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Resource: "nodes", Subresource: "status", Identity: identity}, Failure: apitest.Unavailable})
	w.addPod("one", "a", "plugged")
	w.Wait(100 * time.Millisecond)
	end()
	remove()
	require.Equal(w, []string{"attach plugged to a"}, w.asked())
	require.Empty(w, w.state())
	w.deletePod("one")
	w.addPod("two", "b", "plugged")
	w.manage("a", false)
	w.Wait(time.Hour)
	w.start()
	w.Wait(time.Hour)
	require.Empty(w, w.asked())
}

// TestHeldNodeIsManaged: a node that only a holder names becomes managed.
func TestHeldNodeIsManaged(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachUnreported()
		w.manage("a", true)
		w.Wait(time.Hour)
		require.Equal(t, []string{"detach plugged from a", "attach plugged to b"}, w.asked())
	})
}

// TestHeldNodeIsDeleted: the deletion of a node that is not managed frees a volume that only a holder names.
func TestHeldNodeIsDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachUnreported()
		w.deleteA()
		w.Wait(time.Hour)
		require.Equal(t, []string{"detach plugged from a", "attach plugged to b"}, w.asked())
	})
}

// TestHolderIsRemoved: a user removes the holder that blocks a volume.
func TestHolderIsRemoved(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachUnreported()
		pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), "plugged", metav1.GetOptions{})
		require.NoError(t, err)
		delete(pv.Annotations, attach.HolderAnnotation)
		_, err = w.Cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
		require.NoError(t, err)
		w.Wait(time.Hour)
		require.Equal(t, []string{"attach plugged to b"}, w.asked())
	})
}

// TestRememberedNodeIsManaged: this run has attached an inline volume, the Node object is created again
// without lists, and becomes managed later.
func TestRememberedNodeIsManaged(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.addInlinePod("one", "a", "disk")
		w.settle()
		require.Equal(t, "disk on a at /dev/disk", w.state())
		require.Equal(t, []string{"attach disk to a"}, w.asked())
		w.deleteA()
		node := newNode("a", v1.ConditionTrue)
		node.Annotations = nil
		_, err := w.Cluster.Nodes().Create(w.Context(), node, metav1.CreateOptions{})
		require.NoError(t, err)
		w.Wait(time.Second)
		w.deletePod("one")
		w.Wait(time.Hour)
		require.Empty(t, w.asked())
		w.manage("a", true)
		w.Wait(time.Hour)
		require.Equal(t, []string{"detach disk from a"}, w.asked())
	})
}

// TestUnseenRoom: a VolumeAttachment that fills a node comes and ends while no watch shows it.
func TestUnseenRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		w.changeNode("a", func(n *v1.Node) {
			n.Status.Allocatable = v1.ResourceList{"attachable-volumes-csi-" + v1.ResourceName(driver): resource.MustParse("1")}
		})
		w.addDisks(single, shared)
		w.start()
		end := w.Gap("volumeattachments")
		w.addPod("one", "a", "single")
		w.Wait(time.Second)
		w.addPod("two", "a", "shared")
		w.Wait(time.Second)
		require.Equal(t, "single attaching to a", w.state())
		w.deletePod("one")
		w.Wait(time.Second)
		require.Empty(t, w.state())
		end()
		w.Wait(time.Hour)
		w.settle()
		require.Equal(t, "shared attached to a, shared on a", w.state())
	})
}

// TestOrphanOfNewName: the persistent volume of a VolumeAttachment has gone, and another one with its handle
// has another name.
func TestOrphanOfNewName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachSingle()
		w.driver.detach = func(*storagev1.VolumeAttachment) error { return errors.New("slow") }
		w.deletePod("one")
		w.settle()
		w.deleteDisk(single)
		w.Wait(10 * time.Minute)
		w.settle()
		require.Equal(t, "single detaching to a", w.state())
		claim := diskSpec{name: "new"}
		w.addDisks(claim)
		claims, err := w.Cluster.PersistentVolumes().Get(w.Context(), "new", metav1.GetOptions{})
		require.NoError(t, err)
		w.deletePV("new")
		claims.Spec.CSI.VolumeHandle = "single"
		claims.ResourceVersion, claims.UID = "", ""
		_, err = w.Cluster.PersistentVolumes().Create(w.Context(), claims, metav1.CreateOptions{})
		require.NoError(t, err)
		w.Wait(time.Second)
		w.addPod("two", "b", "new")
		w.settle()
		w.Wait(10 * time.Minute)
		w.settle()
		require.Equal(t, "single detaching to a", w.state())
		w.driver.detach = func(*storagev1.VolumeAttachment) error { return nil }
		w.settle()
		w.Wait(10 * time.Minute)
		w.settle()
		require.Equal(t, "new attached to b, single on b", w.state())
	})
}

// deletePV removes a persistent volume in spite of its finalizers.
func (w *world) deletePV(name string) {
	w.Helper()
	pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	pv.Finalizers = nil
	_, err = w.Cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
	require.NoError(w, w.Cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// TestUnseenNodeState: a read of the node in a gap of the watch shows it as not managed.
func TestUnseenNodeState(t *testing.T) {
	inWorld(t, func(w *world) {
		other := diskSpec{name: "other"}
		w.addDisks(single, other)
		w.start()
		w.addPod("one", "a", "single")
		w.settle()
		end := w.Gap("nodes")
		w.manage("a", false)
		w.deletePod("one") // the withdrawal conflicts, and reads the node
		w.settle()
		w.addPod("two", "a", "other")
		w.settle()
		require.NotContains(t, w.state(), "other")
		w.manage("a", true)
		end()
		w.Wait(time.Hour)
		w.settle()
		require.Equal(t, "other attached to a, other on a", w.state())
	})
}

// TestEditedPath: another program changes the device path of an entry.
func TestEditedPath(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachDisk(plugged)
		w.Wait(time.Hour)
		w.changeNode("a", func(n *v1.Node) { n.Status.VolumesAttached[0].DevicePath = "/dev/wrong" })
		w.Wait(time.Hour)
		require.Equal(t, "plugged on a at /dev/plugged", w.state())
	})
}

// TestUnseenTimer: the memory of a VolumeAttachment that no watch shows.
func TestUnseenTimer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single)
		w.start()
		end := w.Gap("volumeattachments")
		w.addPod("one", "a", "single")
		w.Wait(time.Second)
		w.deletePod("one")
		w.Wait(time.Second)
		require.Empty(t, w.state())
		end()
		w.deleteDisk(single)
		w.Wait(time.Hour)
		require.NotContains(t, w.latest.Remembered(), "timers")
	})
}

// TestOrphanNeeds: memory of an orphan whose volume comes while its VolumeAttachment ends.
func TestOrphanNeeds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachSingle()
		w.deleteA()
		w.Wait(time.Second)
		w.deletePod("one")
		w.driver.detach = func(*storagev1.VolumeAttachment) error { return errors.New("slow") }
		w.deleteDisk(single)
		w.Wait(time.Hour)
		w.settle()
		require.Equal(t, "single detaching to a", w.state())
		w.addDisks(single)
		w.Wait(time.Second)
		w.driver.detach = func(*storagev1.VolumeAttachment) error { return nil }
		w.settle()
		w.Wait(time.Hour)
		require.Empty(t, w.state())
		w.deleteDisk(single)
		require.NoError(t, w.Cluster.Nodes().Delete(w.Context(), "b", metav1.DeleteOptions{}))
		w.Wait(time.Hour)
		require.Empty(t, w.latest.Remembered())
	})
}

// TestPluginPanics: a panic of a plugin is a failure of its call.
func TestPluginPanics(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(plugged)
		panics := true
		w.fail(func(string) error {
			if panics {
				panics = false
				panic("bad plugin")
			}
			return nil
		})
		w.start()
		w.addPod("one", "a", "plugged")
		w.Wait(time.Hour)
		require.Equal(t, "plugged on a at /dev/plugged", w.state())
	})
}

// TestOrphanAtStart: an orphan counts from the first turn on, among many VolumeAttachments.
func TestOrphanAtStart(t *testing.T) {
	inWorld(t, func(w *world) {
		end := w.attachSingle()
		w.use("a", single)
		end()
		w.deletePod("one")
		w.deleteDisk(single)
		w.changeNode("a", func(n *v1.Node) { n.Status.VolumesAttached = nil })
		w.addDisks(shared)
		for i := range 3000 {
			volume := "shared"
			_, err := w.Cluster.VolumeAttachments().Create(w.Context(), &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("a-", i)},
				Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		w.addDisks(diskSpec{name: "new"})
		pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), "new", metav1.GetOptions{})
		require.NoError(t, err)
		w.deletePV("new")
		pv.Spec.CSI.VolumeHandle = "single"
		pv.ResourceVersion, pv.UID = "", ""
		_, err = w.Cluster.PersistentVolumes().Create(w.Context(), pv, metav1.CreateOptions{})
		require.NoError(t, err)
		w.addPod("two", "b", "new")
		w.Wait(time.Hour)
		w.start()
		w.Wait(time.Minute)
		list, err := w.Cluster.VolumeAttachments().List(w.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, va := range list.Items {
			require.Equal(t, "a", va.Spec.NodeName, "in use on a, and attached to b")
		}
	})
}

// TestRevertedReport: a volume that another program reports again, before the cache has shown its withdrawal, is
// withdrawn again.
func TestRevertedReport(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachDisk(shared)
		end := w.Gap("nodes")
		w.deletePod("one")
		w.settle()
		require.Empty(t, w.state())
		w.Wait(5 * time.Minute)
		w.changeNode("a", func(n *v1.Node) { n.Status.VolumesAttached = []v1.AttachedVolume{{Name: shared.id()}} })
		end()
		require.Empty(t, w.state())
	})
}

// TestLateNewNodeObject: a new Node object whose list of volumes in use the cache has not shown counts as the API
// server shows it.
func TestLateNewNodeObject(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachDisk(shared)
		w.use("a", shared)
		w.deletePod("one")
		w.Wait(time.Minute)
		require.Equal(t, "shared attached to a", w.state())
		w.deleteA()
		_, err := w.Cluster.Nodes().Create(w.Context(), newNode("a", v1.ConditionTrue), metav1.CreateOptions{})
		require.NoError(t, err)
		w.Wait(10 * time.Second)
		end := w.Server.HoldEvents(identity)
		w.use("a", shared)
		w.took()
		w.Wait(5 * time.Minute)
		require.Equal(t, "shared attached to a", w.state())
		require.Equal(t, []string{"get nodes a"}, w.took())
		end()
		w.use("a")
		w.settle()
		require.Empty(t, w.state())
	})
}

// TestNewNodeObjectRecovers: the list of volumes in use that was read while a new Node object was out of service does
// not count afterwards.
func TestNewNodeObjectRecovers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Backoff = time.Minute
		w.attachDisk(plugged)
		w.use("a", plugged)
		w.deletePod("one")
		w.fail(func(string) error { return volume.AsUncertain(errors.New("broken")) })
		w.Wait(time.Minute)
		w.deleteA()
		w.Wait(time.Minute)
		node := newNode("a", v1.ConditionTrue)
		node.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}}
		w.asked()
		_, err := w.Cluster.Nodes().Create(w.Context(), node, metav1.CreateOptions{})
		require.NoError(t, err)
		w.Wait(10 * time.Second)
		require.Equal(t, []string{"detach plugged from a"}, w.asked())
		w.changeNode("a", func(n *v1.Node) { n.Spec.Taints = nil })
		w.Wait(time.Second)
		w.Server.HoldEvents(identity)
		w.use("a", plugged)
		w.Wait(10 * time.Minute)
		require.Empty(t, w.asked(), "in use again")
	})
}
