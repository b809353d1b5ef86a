package attach

import (
	"crypto/sha256"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// ManagedAnnotation marks, with the value "true", a node whose volumes a controller attaches.
	ManagedAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	// KeepTerminatedAnnotation marks, with the value "true", a node whose finished pods keep their volumes.
	KeepTerminatedAnnotation = "volumes.kubernetes.io/keep-terminated-pod-volumes"
	// HolderAnnotation of a persistent volume names the nodes that the volume may be attached to, the
	// run of the controller that attaches it, and the time of the last attach. See the package comment.
	HolderAnnotation = "attach.volumekit.io/holder"
)

// Reasons of events.
const (
	reasonAttached     = "SuccessfulAttachVolume"
	reasonAttachFailed = "FailedAttachVolume"
	reasonDetachFailed = "FailedDetachVolume"
)

// Names of metrics, as kube-controller-manager has them. The durations of calls are
// manager.OperationDuration, with the operations "volume_attach" and "volume_detach".
const (
	// ForcedDetaches counts detaches from nodes that count as dead, with the label reason: "timeout" or
	// "out-of-service".
	ForcedDetaches = "attachdetach_controller_forced_detaches"
	// TotalVolumes is a gauge: the number of pairs of a volume and a node, with the labels plugin_name
	// and state ("desired_state_of_world" or "actual_state_of_world").
	TotalVolumes = "attachdetach_controller_total_volumes"
)

// Causes of forced detaches.
const (
	causeTimeout      = "timeout"
	causeOutOfService = "out-of-service"
)

// csiPlugin is the name of the plugin of CSI volumes.
const csiPlugin = "kubernetes.io/csi"

// attachmentPrefix begins the name of each VolumeAttachment of a controller.
const attachmentPrefix = "csi-"

// attachmentName returns the name of the VolumeAttachment of a CSI volume on a node.
func attachmentName(driver, handle string, node types.NodeName) string {
	return fmt.Sprintf("%s%x", attachmentPrefix, sha256.Sum256([]byte(handle+driver+string(node))))
}
