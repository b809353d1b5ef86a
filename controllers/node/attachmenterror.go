package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrAttachFailed is the cause of an [AttachmentError] if the driver has reported an error.
var ErrAttachFailed = errors.New("the driver has reported an error")

// An AttachmentError is the error of a wait for a VolumeAttachment. It is transient
// (volume.ErrTransient).
type AttachmentError struct {
	Name           string // of the VolumeAttachment
	Driver, Handle string
	Node           types.NodeName
	State          string // why the volume does not count as attached
	// AttachError and DetachError are those of the status, as the driver reported them. Nil: none.
	AttachError, DetachError *storagev1.VolumeError
	Err                      error // what ended the wait: ErrAttachFailed, or the cause of ctx
}

// States of a VolumeAttachment that does not count as attached.
const (
	stateUnknown  = "the VolumeAttachment has not been read"
	stateMissing  = "the VolumeAttachment does not exist"
	stateDeleting = "the VolumeAttachment is being deleted"
	stateForeign  = "the VolumeAttachment is for another driver or node"
	statePending  = "status.attached is false"
)

// read sets State and the errors of the status.
func (e *AttachmentError) read(object *storagev1.VolumeAttachment, known bool) {
	e.State, e.AttachError, e.DetachError = "", nil, nil
	switch {
	case !known:
		e.State = stateUnknown
		return
	case object == nil:
		e.State = stateMissing
		return
	case object.Spec.Attacher != e.Driver || object.Spec.NodeName != string(e.Node):
		e.State = stateForeign
		return
	case object.DeletionTimestamp != nil:
		e.State = stateDeleting
	case !object.Status.Attached:
		e.State = statePending
	}
	e.AttachError, e.DetachError = object.Status.AttachError, object.Status.DetachError
}

// Error names the object, its state, the errors of the driver with their times, and the cause, in one
// line of limited length.
func (e *AttachmentError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "wait for VolumeAttachment %s of volume %q of driver %q on node %q: %s", e.Name, brief.Name(e.Handle), brief.Name(e.Driver), e.Node, e.State)
	for _, failed := range []struct {
		verb string
		err  *storagev1.VolumeError
	}{{"attach", e.AttachError}, {"detach", e.DetachError}} {
		if failed.err != nil {
			fmt.Fprintf(&b, ", %s failed at %s: %s", failed.verb, failed.err.Time.UTC().Format(time.RFC3339), failed.err.Message)
		}
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return telemetry.Text(b.String())
}

// Unwrap returns what ended the wait, and the kind.
func (e *AttachmentError) Unwrap() []error { return []error{e.Err, volume.ErrTransient} }

// isSameError reports whether two reports of a driver are the same.
func isSameError(a, b *storagev1.VolumeError) bool {
	return a == b || a != nil && b != nil && a.Message == b.Message && a.Time.Equal(&b.Time)
}
