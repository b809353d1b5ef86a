// Package claimstatus builds patches of the status of claims whose volumes grow or change their attributes.
// Controllers and nodes share the fields of one expansion.
package claimstatus

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Change is a change of the status of a claim. The zero value changes nothing.
type Change struct {
	Capacity  *resource.Quantity      // nil: unchanged
	Allocated *resource.Quantity      // the size of the expansion. Nil: unchanged
	State     *v1.ClaimResourceStatus // of storage. Nil: unchanged; "": removed
	Set       []v1.PersistentVolumeClaimCondition
	Remove    []v1.PersistentVolumeClaimConditionType
	// Modify is the state of the change to another attributes class. Nil: unchanged; the zero value: removed.
	Modify *v1.ModifyVolumeStatus
	// Attributes is the attributes class of the volume. "": unchanged.
	Attributes string
	// Annotations are set; nil removes one.
	Annotations map[string]any
}

// IsEmpty reports whether c changes nothing.
func (c Change) IsEmpty() bool {
	return c.Capacity == nil && c.Allocated == nil && c.State == nil && c.Modify == nil && c.Attributes == "" && len(c.Set)+len(c.Remove)+len(c.Annotations) == 0
}

// ResizeConditions are the conditions that end with an expansion.
var ResizeConditions = []v1.PersistentVolumeClaimConditionType{
	v1.PersistentVolumeClaimResizing, v1.PersistentVolumeClaimFileSystemResizePending,
	v1.PersistentVolumeClaimControllerResizeError, v1.PersistentVolumeClaimNodeResizeError,
}

// ModifyConditions are the conditions that end with the change to another attributes class.
var ModifyConditions = []v1.PersistentVolumeClaimConditionType{
	v1.PersistentVolumeClaimVolumeModifyingVolume, v1.PersistentVolumeClaimVolumeModifyVolumeError,
}

// Has reports whether a claim has a condition that is true.
func Has(claim *v1.PersistentVolumeClaim, kind v1.PersistentVolumeClaimConditionType) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool {
		return c.Type == kind && c.Status == v1.ConditionTrue
	})
}

// IsBound reports whether a claim and a volume are bound to each other.
func IsBound(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	return claim.Status.Phase == v1.ClaimBound && claim.Spec.VolumeName == pv.Name &&
		ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && ref.UID == claim.UID
}

// Missing returns a true condition, unless the claim has it.
func Missing(claim *v1.PersistentVolumeClaim, kind v1.PersistentVolumeClaimConditionType, message string) []v1.PersistentVolumeClaimCondition {
	if Has(claim, kind) {
		return nil
	}
	return []v1.PersistentVolumeClaimCondition{{
		Type: kind, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now()), Message: message,
	}}
}

// Present returns the kinds that the claim has a condition of.
func Present(claim *v1.PersistentVolumeClaim, kinds []v1.PersistentVolumeClaimConditionType) (present []v1.PersistentVolumeClaimConditionType) {
	for _, c := range claim.Status.Conditions {
		if slices.Contains(kinds, c.Type) {
			present = append(present, c.Type)
		}
	}
	return present
}

// Patch returns the strategic merge patch of the status of a claim. The API server refuses it with a
// conflict if the claim is not the given one, in the given version. Unlike an update, a patch keeps
// fields that this program does not know.
func (c Change) Patch(claim *v1.PersistentVolumeClaim) ([]byte, error) {
	metadata := map[string]any{"resourceVersion": claim.ResourceVersion}
	if c.Annotations != nil {
		metadata["annotations"] = c.Annotations
	}
	data, err := json.Marshal(map[string]any{"metadata": metadata, "status": c.status()})
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	return data, nil
}

// status returns the fields of the status that change.
func (c Change) status() map[string]any {
	status := map[string]any{}
	if c.Capacity != nil {
		status["capacity"] = sizeField(*c.Capacity)
	}
	if c.Allocated != nil {
		status["allocatedResources"] = sizeField(*c.Allocated)
	}
	if c.State != nil {
		var state any // null removes the entry
		if *c.State != "" {
			state = *c.State
		}
		status["allocatedResourceStatuses"] = map[v1.ResourceName]any{v1.ResourceStorage: state}
	}
	switch {
	case c.Modify == nil:
	case *c.Modify == v1.ModifyVolumeStatus{}:
		status["modifyVolumeStatus"] = nil
	default:
		status["modifyVolumeStatus"] = c.Modify
	}
	if c.Attributes != "" {
		status["currentVolumeAttributesClassName"] = c.Attributes
	}
	var conditions []any
	for _, condition := range c.Set {
		conditions = append(conditions, condition)
	}
	for _, kind := range c.Remove {
		conditions = append(conditions, map[string]any{"$patch": "delete", "type": kind})
	}
	if conditions != nil {
		status["conditions"] = conditions
	}
	return status
}

// sizeField returns the field of a size of storage.
func sizeField(size resource.Quantity) map[v1.ResourceName]string {
	size = size.DeepCopy() // String changes its receiver
	return map[v1.ResourceName]string{v1.ResourceStorage: size.String()}
}
