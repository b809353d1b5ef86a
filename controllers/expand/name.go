package expand

import v1 "k8s.io/api/core/v1"

// Annotations of claims and volumes, as Kubernetes has them.
const (
	// ResizerAnnotation of a claim is the name of the program part that makes its volume larger.
	ResizerAnnotation = "volume.kubernetes.io/storage-resizer"
	// CompleteAnnotation of a claim says that its last expansion needs no step on a node.
	CompleteAnnotation = "volume.kubernetes.io/node-expansion-not-required"
	// CapacityBeforeAnnotation of a volume is the capacity of its claim before an expansion that a node
	// has not finished. A binder gives this capacity to the next claim of the volume.
	CapacityBeforeAnnotation = "volume.alpha.kubernetes.io/pre-resize-capacity"
)

// Reasons of events.
const (
	reasonExpanding = "Resizing"
	reasonExpanded  = "VolumeResizeSuccessful"
	reasonFailed    = "VolumeResizeFailed"
	reasonNode      = "FileSystemResizeRequired"
	reasonExternal  = "ExternalExpanding"
)

// States of an expansion: status.allocatedResourceStatuses[storage] of a claim.
const (
	inProgress     = v1.PersistentVolumeClaimControllerResizeInProgress
	infeasible     = v1.PersistentVolumeClaimControllerResizeInfeasible
	nodePending    = v1.PersistentVolumeClaimNodeResizePending
	nodeInProgress = v1.PersistentVolumeClaimNodeResizeInProgress
	nodeInfeasible = v1.PersistentVolumeClaimNodeResizeInfeasible
)

// operation is the value of the label operation_name of manager.OperationDuration.
const operation = "expand_volume"
