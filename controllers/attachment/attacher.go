package attachment

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Attacher attaches the volumes of one driver to nodes. Its methods are called concurrently, Attach and
// Detach for one volume on one node at a time. The kind of an error (package volume) is the state of the
// storage. The text of an error is stored in the API: it must not contain secrets. If ctx ends, each method
// returns soon.
type Attacher interface {
	// Name returns the name of the driver, the same each time: the controller handles the
	// VolumeAttachments whose spec.attacher equals it. Name does not block.
	Name() string

	// Attach attaches a volume to a node, and returns the metadata that the node needs to use the volume:
	// the publish context of CSI. Attach is idempotent: for an attached volume it returns the metadata
	// again. The kinds of errors are:
	//
	//   - final: this call has changed nothing, and no earlier call is in progress.
	//   - transient: this call has changed nothing.
	//   - uncertain: the volume may be attached, now or later. The controller repeats the call with the
	//     same arguments until the outcome is known, or calls Detach.
	//
	// The controller calls Detach after each kind of error when the VolumeAttachment is deleted.
	Attach(ctx context.Context, req Request) (metadata map[string]string, err error)

	// Detach detaches a volume from a node. It is idempotent: for a volume that is not attached, and for a
	// volume or a node that does not exist any more, it returns nil. After an error of any kind the
	// controller repeats the call.
	Detach(ctx context.Context, req Request) error
}

// A Request names a volume and a node. The Attacher must not change it.
type Request struct {
	// Volume is the PersistentVolume. Of an inline volume spec it is an object without a name, with this
	// spec.
	Volume *v1.PersistentVolume
	// Node is the name of the node in the cluster.
	Node types.NodeName
	// NodeID is the ID that the driver has for the node, from the CSINode. Detach receives the ID of the
	// last Attach, from [NodeIDAnnotation].
	NodeID string
}

// A Checker is an [Attacher] that checks a volume before the VolumeAttachment receives the finalizer. Without the
// finalizer, the end of a VolumeAttachment requires no Detach.
type Checker interface {
	// Check returns an error for a volume that Attach would not attach now: of another driver, without a field that
	// the driver requires, or with a Secret that does not exist. The controller calls it again after a pause. Nil
	// does not mean that Attach succeeds. Check changes nothing, and is called concurrently.
	Check(ctx context.Context, volume *v1.PersistentVolume) error
}

// A Lister is an [Attacher] that lists the attached volumes of the storage. The controller attaches volumes
// again that the storage has lost.
type Lister interface {
	// ListAttached returns all attached volumes: a list that misses some of them causes calls of Attach
	// for these. Volumes of other clusters are ignored.
	ListAttached(ctx context.Context) ([]Attached, error)
}

// An Attached is a volume that is attached at the storage.
type Attached struct {
	VolumeHandle string   // the one in the CSI source of a PersistentVolume
	NodeIDs      []string // the nodes that the volume is attached to
}

// WithErrorCode returns an error for the field errorCode of a VolumeError, with the text and the kind of err.
// The code is a code of gRPC; a control plane reads 8, ResourceExhausted, as a node that cannot have more
// volumes. WithErrorCode returns nil for nil.
func WithErrorCode(err error, code int32) error {
	if err == nil {
		return nil
	}
	return &codedError{err, code}
}

type codedError struct {
	error
	code int32
}

func (e *codedError) Unwrap() error { return e.error }

// errorCode returns the code of an error, and false if it has none that the API server accepts.
func errorCode(err error) (code int32, ok bool) {
	var coded *codedError
	if !errors.As(err, &coded) || coded.code < 0 {
		return 0, false
	}
	return coded.code, true
}
