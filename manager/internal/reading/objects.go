package reading

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Objects are the results of one round of reads. Each object is read once, so that all pods of
// the round see the same claims and volumes.
type Objects map[Ref]object

var _ volume.ClaimReader = Objects(nil)

// An object is the result of one read: one of the pointers, or an error.
type object struct {
	pod    *v1.Pod
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	err    error
}

// Has reports whether the object was read, with or without success.
func (o Objects) Has(ref Ref) bool {
	_, ok := o[ref]
	return ok
}

// GetPersistentVolumeClaim returns the claim that was read. The error is an [Error].
func (o Objects) GetPersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	r := o[ClaimRef(namespace, name)]
	if r.err == nil && r.claim == nil {
		r.err = errNilObject
	}
	return r.claim, AsError(r.err)
}

// GetPersistentVolume returns the persistent volume that was read. The error is an [Error].
func (o Objects) GetPersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	r := o[VolumeRef(name)]
	if r.err == nil && r.volume == nil {
		r.err = errNilObject
	}
	return r.volume, AsError(r.err)
}

// podError returns why the object is not the pod with the UID, or nil.
func (r object) podError(uid types.UID) error {
	switch {
	case r.err != nil:
		return r.err
	case r.pod == nil:
		return errNilObject
	case r.pod.UID != uid:
		return fmt.Errorf("the source returned another pod, %q", brief.Name(string(r.pod.UID)))
	}
	return nil
}

var (
	// ErrPending is the error of an object whose read is still in flight.
	ErrPending = errors.New("the read from the source is still pending")
	errTimeout = errors.New("the source did not return")
	// errNilObject replaces a nil object without an error: the object may still exist.
	errNilObject = errors.New("the source returned nil without an error")
	errNilPod    = errors.New("the source returned a nil pod")
)

// An Error is the error of a source. It is never final: a later read may succeed.
type Error struct{ error }

// Unwrap returns the error as the source returned it.
func (e *Error) Unwrap() error { return e.error }

// AsError returns err as an [Error]; nil for nil.
func AsError(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err}
}
