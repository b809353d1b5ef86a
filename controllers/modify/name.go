package modify

import v1 "k8s.io/api/core/v1"

// Reasons of events, as external-resizer has them.
const (
	reasonModifying = "VolumeModify"
	reasonModified  = "VolumeModifySuccessful"
	reasonFailed    = "VolumeModifyFailed"
)

// States of a change: status.modifyVolumeStatus.status of a claim.
const (
	pending    = v1.PersistentVolumeClaimModifyVolumePending
	inProgress = v1.PersistentVolumeClaimModifyVolumeInProgress
	infeasible = v1.PersistentVolumeClaimModifyVolumeInfeasible
)

// operation is the value of the label operation_name of manager.OperationDuration.
const operation = "modify_volume"
