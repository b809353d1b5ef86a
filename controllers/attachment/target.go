package attachment

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// A target is a volume and a node as the driver names them. The handle of a volume without a CSI source is
// "".
type target struct{ handle, nodeID string }

// Longer handles are recorded by their hash, so that the annotations stay small.
const (
	mostHandle = 1024
	hashMark   = "sha256:"
)

// handleOf returns the handle of a volume in the form of VolumeHandleAnnotation, or "".
func handleOf(pv *v1.PersistentVolume) string {
	if pv == nil || pv.Spec.CSI == nil {
		return ""
	}
	return shorten(pv.Spec.CSI.VolumeHandle)
}

// shorten returns a handle, or the hash of a long one and of one that looks like a hash.
func shorten(handle string) string {
	if len(handle) <= mostHandle && !strings.HasPrefix(handle, hashMark) {
		return handle
	}
	sum := sha256.Sum256([]byte(handle))
	return hashMark + hex.EncodeToString(sum[:])
}

// recordedTarget returns the target in the annotations of a VolumeAttachment: that of its last Attach.
func recordedTarget(attachment *storagev1.VolumeAttachment) target {
	return target{handle: attachment.Annotations[VolumeHandleAnnotation], nodeID: attachment.Annotations[NodeIDAnnotation]}
}

// recordedVolume returns a volume with the handle in the annotation of a VolumeAttachment, for a Detach
// without the PersistentVolume. Nil: the annotation is missing, or has only the hash of the handle.
func recordedVolume(attachment *storagev1.VolumeAttachment) *v1.PersistentVolume {
	handle := attachment.Annotations[VolumeHandleAnnotation]
	if handle == "" || strings.HasPrefix(handle, hashMark) {
		return nil
	}
	pv := &v1.PersistentVolume{}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: attachment.Spec.Attacher, VolumeHandle: handle}
	return pv
}

// nodeIDOf returns the ID that a driver has for a node, or "".
func nodeIDOf(node *storagev1.CSINode, driver string) string {
	if node == nil {
		return ""
	}
	for i := range node.Spec.Drivers {
		if node.Spec.Drivers[i].Name == driver {
			return node.Spec.Drivers[i].NodeID
		}
	}
	return ""
}
