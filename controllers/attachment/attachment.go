package attachment

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A step is the next step of the controller for a VolumeAttachment.
type step int

const (
	stepNone        step = iota
	stepGuard            // write the finalizer and the target to the VolumeAttachment
	stepGuardVolume      // write the finalizer to the PersistentVolume
	stepAttach           // call Attach
	stepAccept           // write attached without a call
	stepClear            // remove an error that has ended from the status
	stepMove             // call Detach for the recorded target, and remove the record and the finalizer
	stepForget           // remove the record and the finalizer without a call
	stepDetach           // call Detach, and remove the finalizer
	stepRelease          // remove the finalizer without a call
	stepFail             // write a problem to the status
)

// rules are the parts of a decision that never change.
type rules struct {
	driver    string
	finalizer string
	noPublish bool
}

// A view has all that a decision depends on.
type view struct {
	rules
	attachment *storagev1.VolumeAttachment // nil: gone
	// volume is the PersistentVolume, or a nameless one with the inline volume spec. Nil: missing.
	volume *v1.PersistentVolume
	nodeID string // of the CSINode; "": the driver is not registered on the node
	// isLost: the storage does not have the volume attached, against the status.
	isLost bool
	// isShared: another VolumeAttachment with a finalizer has the recorded target, and is not being deleted. It
	// is false if no step depends on it.
	isShared bool
}

// Problems that prevent a call of the driver.
var (
	errNoVolume       = errors.New("the PersistentVolume does not exist")
	errVolumeDeleting = errors.New("the PersistentVolume is being deleted")
	errOtherDriver    = errors.New("the volume belongs to another driver")
	errOtherVolume    = errors.New("the PersistentVolume is not the attached one, which had its name")
	errNoNodeID       = errors.New("the CSINode of the node has no node ID of the driver")
	errLongNodeID     = fmt.Errorf("the node ID is longer than %d bytes", mostNodeID)
)

// decide returns the next step for a VolumeAttachment, and the problem of stepFail:
//
//	                guard              guard the volume, attach
//	(new) ----------------------> guarded ----------------------> attached
//	  | ^                         |  |                              |   |
//	  | '-------------------------'  | deleted       lost at the    |   | deleted
//	  |    the node has another ID,  |               storage:       |   |
//	  |    or the name another       |               attach         |   |
//	  | deleted      volume: move    |                              |   |
//	  v        detach, release       v                              v   |
//	(gone) <------------------- deleting <------------------------------'
//
// A guarded VolumeAttachment may be attached at the storage in each state of its status. So it is detached
// before its finalizer goes, and before it receives another target. A step without a call of the driver comes
// before the call: the finalizers and the target are stored then, and a crash leaves nothing behind.
func decide(v view) (step, error) {
	attachment := v.attachment
	switch {
	case attachment == nil || attachment.Spec.Attacher != v.driver:
		return stepNone, nil
	case attachment.DeletionTimestamp != nil:
		return v.decideDetach()
	case v.noPublish:
		if attachment.Status.Attached && attachment.Status.AttachError == nil {
			return stepNone, nil
		}
		return stepAccept, nil
	case attachment.Status.Attached && !v.isLost:
		return v.decideAttached(), nil
	}
	return v.decideAttach()
}

// decideAttach returns the next step towards Attach.
func (v view) decideAttach() (step, error) {
	if err := v.problem(); err != nil {
		return stepFail, err
	}
	switch {
	case v.hasMoved() && v.isShared:
		return stepForget, nil
	case v.hasMoved():
		return stepMove, nil
	case !hasFinalizer(v.attachment, v.finalizer) || recordedTarget(v.attachment) != v.wanted():
		return stepGuard, nil
	case !v.hasVolumeGuard():
		return stepGuardVolume, nil
	}
	return stepAttach, nil
}

// decideAttached returns the next step for an attached volume: to restore its finalizers, or to clear the
// error of an attempt to attach it again.
func (v view) decideAttached() step {
	if v.problem() == nil {
		switch {
		case !hasFinalizer(v.attachment, v.finalizer):
			return stepGuard
		case !v.hasVolumeGuard():
			return stepGuardVolume
		}
	}
	if v.attachment.Status.AttachError != nil {
		return stepClear
	}
	return stepNone
}

// decideDetach returns the next step for a VolumeAttachment that is being deleted.
func (v view) decideDetach() (step, error) {
	switch {
	case !hasFinalizer(v.attachment, v.finalizer):
		return stepNone, nil
	case v.noPublish, v.isShared:
		return stepRelease, nil
	case v.attachedVolume() == nil:
		return stepFail, errNoVolume
	case v.attachedNodeID() == "":
		return stepFail, errNoNodeID
	}
	return stepDetach, nil
}

// problem returns the reason why the volume cannot be attached, or nil.
func (v view) problem() error {
	switch wanted := v.wanted(); {
	case v.volume == nil:
		return errNoVolume
	case v.volume.DeletionTimestamp != nil && !(v.isLost && v.hasVolumeGuard()):
		return errVolumeDeleting
	case v.volume.Spec.CSI != nil && v.volume.Spec.CSI.Driver != v.driver:
		return errOtherDriver
	case wanted.handle != handleOf(v.volume):
		return errOtherVolume
	case wanted.nodeID == "":
		return errNoNodeID
	case len(wanted.nodeID) > mostNodeID:
		return errLongNodeID
	}
	return nil
}

// wanted returns the target to attach. An attached volume keeps its own. A node without the driver keeps the
// recorded ID: the driver registers again after an update.
func (v view) wanted() target {
	recorded := recordedTarget(v.attachment)
	if v.attachment.Status.Attached && recorded.nodeID != "" {
		return target{handle: cmp.Or(recorded.handle, handleOf(v.volume)), nodeID: recorded.nodeID}
	}
	return target{handle: handleOf(v.volume), nodeID: cmp.Or(v.nodeID, recorded.nodeID)}
}

// hasMoved reports whether the recorded target is another one than the target to attach.
func (v view) hasMoved() bool {
	recorded := recordedTarget(v.attachment)
	return hasFinalizer(v.attachment, v.finalizer) && recorded.nodeID != "" && !recorded.isSame(v.wanted())
}

// isSame reports whether two targets are the same. A target without a handle has been recorded by another
// program.
func (t target) isSame(other target) bool {
	return t.nodeID == other.nodeID && (t.handle == other.handle || t.handle == "")
}

// attachedVolume returns the volume that a Detach concerns, or nil: the PersistentVolume, unless the
// recorded handle is that of another volume.
func (v view) attachedVolume() *v1.PersistentVolume {
	recorded := recordedTarget(v.attachment).handle
	if v.volume != nil && (recorded == "" || recorded == handleOf(v.volume)) {
		return v.volume
	}
	return recordedVolume(v.attachment)
}

// attachedNodeID returns the node ID that a Detach concerns, or "".
func (v view) attachedNodeID() string {
	if id := recordedTarget(v.attachment).nodeID; id != "" {
		return id
	}
	return v.nodeID
}

// hasVolumeGuard reports whether the volume has its finalizer, or is an inline volume spec.
func (v view) hasVolumeGuard() bool {
	return volumeName(v.attachment) == "" || v.volume != nil && hasFinalizer(v.volume, v.finalizer)
}

func hasFinalizer(object metav1.Object, name string) bool {
	return slices.Contains(object.GetFinalizers(), name)
}

// mayRelease reports whether the finalizer of a volume goes with its last VolumeAttachment.
func (r rules) mayRelease(pv *v1.PersistentVolume) bool {
	return pv != nil && pv.DeletionTimestamp != nil && hasFinalizer(pv, r.finalizer)
}
