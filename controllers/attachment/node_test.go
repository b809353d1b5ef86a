package attachment_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/volume"
	storagev1 "k8s.io/api/storage/v1"
)

const noNodeID = `attach error "the CSINode of the node has no node ID of the driver"`

// TestMissingNode: a VolumeAttachment waits for the node ID, without a finalizer.
func TestMissingNode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "later")
		require.Equal(t, noNodeID, w.state("a"))
		w.delete("a")
		require.Equal(t, "gone", w.state("a"))
		w.add("a", "later")
		w.addNode("later", "id-later")
		w.Wait(time.Millisecond)
		require.Equal(t, "guarded disk to id-later, attached, device=/dev/sda", w.state("a"))
	})
}

// TestNodeIsGone: a volume is detached from a node without a CSINode, also after a restart.
func TestNodeIsGone(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		inWorld(t, func(w *world) {
			end := w.start()
			w.add("a", "node")
			w.removeNode("node")
			if restarts {
				end()
				w.start()
			}
			w.delete("a")
			require.Equal(t, []string{attach, detach}, w.asked())
			require.Equal(t, "gone", w.state("a"))
		})
	}
}

// TestNodeWithoutRecord: a VolumeAttachment with the finalizer and without a node ID, as external-attacher may
// leave it, is detached by the ID of the CSINode.
func TestNodeWithoutRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		foreign := newAttachment("a", "pv", "node")
		foreign.Finalizers = []string{finalizer, other}
		w.create(foreign)
		w.removeNode("node")
		w.delete("a")
		w.start()
		require.Contains(t, w.state("a"), "detach error")
		w.addNode("node", "id-node")
		w.Wait(time.Millisecond)
		require.Equal(t, "deleting", w.state("a"))
		require.Equal(t, []string{detach}, w.asked())
	})
}

// TestNodeUpdate: a driver that is not registered for a moment does not change the call.
func TestNodeUpdate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{volume.AsUncertain(errors.New("lost")), volume.AsUncertain(errors.New("lost"))}
		w.start()
		w.add("a", "node")
		w.removeNode("node")
		w.Wait(time.Minute)
		require.Equal(t, []string{attach, attach, attach}, w.asked())
		require.Equal(t, attached, w.state("a"))
	})
}

// TestOtherNodeID: a node that has another ID before the volume is attached: the volume is detached from the
// earlier one, whose outcome is unknown.
func TestOtherNodeID(t *testing.T) {
	inWorld(t, func(w *world) {
		lost := volume.AsUncertain(errors.New("lost"))
		w.storage.failures, w.storage.hasEffect = []error{lost, lost, errors.New("in use")}, true
		w.start()
		w.add("a", "node")
		w.removeNode("node")
		w.addNode("node", "id-2")
		require.NotContains(t, w.state("a"), "attached")
		w.Wait(time.Minute)
		require.Equal(t, []string{attach, attach, detach, detach, "attach disk to id-2"}, w.asked())
		require.Equal(t, []string{"disk to id-2"}, w.stored())
		require.Equal(t, "guarded disk to id-2, attached, device=/dev/sda", w.state("a"))
	})
}

// TestNodeLeavesDuringMove: a node leaves again before the volume is attached to its next ID. The VolumeAttachment
// ends without the node.
func TestNodeLeavesDuringMove(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{errors.New("no room"), errors.New("no room")}
		w.start()
		w.add("a", "node")
		w.removeNode("node")
		w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Resource: "volumeattachments"}, Skip: 1, Failure: apitest.InternalError, Times: 1})
		w.addNode("node", "id-2")
		w.Wait(time.Millisecond)
		require.Empty(t, w.get("a").Finalizers)
		w.removeNode("node")
		w.delete("a")
		require.Equal(t, "gone", w.state("a"))
	})
}

// TestOtherNodeIDLater: a node that has another ID after the attach. The volume is detached from the first
// one.
func TestOtherNodeIDLater(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		w.removeNode("node")
		w.addNode("node", "id-2")
		w.Wait(time.Hour)
		w.update("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
		require.Equal(t, attached, w.state("a"), "the record of an attached volume stays")
		w.delete("a")
		require.Equal(t, []string{attach, detach}, w.asked())
		require.Empty(t, w.stored())
	})
}

// TestLongNodeID: a node ID that the CSI specification forbids is refused.
func TestLongNodeID(t *testing.T) {
	inWorld(t, func(w *world) {
		w.removeNode("node")
		w.start()
		hostile := newAttachment("a", "pv", "node")
		hostile.Annotations = map[string]string{attachment.NodeIDAnnotation: strings.Repeat("x", 1000)}
		w.create(hostile)
		require.Equal(t, `attach error "the node ID is longer than 256 bytes"`, w.state("a"))
		require.Empty(t, w.asked())
		w.addNode("node", strings.Repeat("y", 256))
		w.Wait(time.Millisecond)
		require.True(t, w.get("a").Status.Attached)
	})
}
