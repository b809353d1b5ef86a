package provision

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/controllers/internal/panics"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// Options describe the volume to provision. PVC is always set. The objects are copies that
// the Provisioner may change.
type Options = volume.VolumeOptions

// A Provisioner creates and deletes the storage of volumes. Its methods are called concurrently, for
// different volumes, and return soon after ctx ends. A panic counts as an uncertain error.
//
// A Provisioner for raw block devices also implements [volume.BlockProvisioner]; claims with
// volumeMode Block are refused otherwise. A Provisioner that fills volumes from a data source also implements
// [volume.SourceProvisioner]; otherwise claims with a snapshot or another claim as their source are refused, and those
// with an object of another kind are left to its volume populator.
type Provisioner interface {
	// Provision creates the storage of a volume and returns the persistent volume that describes
	// it. The source is required. The controller sets the name, the claim reference, the class, the
	// annotations and the finalizers; fields that are empty it sets from the claim (capacity, access
	// modes, volume mode, attributes class) and from the class (reclaim policy, mount options).
	//
	// Provision is idempotent for one options.PVName, also after a restart: if the storage exists,
	// Provision returns the same volume again.
	//
	// The error states whether storage exists:
	//
	//   - wraps [volume.ErrUncertain]: the storage may exist or may come to exist. The controller
	//     repeats the call with equal options, and options.MayExist, until it succeeds or fails with a
	//     final error, even if the claim is deleted.
	//   - wraps [volume.ErrTransient]: the call changed nothing.
	//   - wraps [volume.ErrReschedule]: no storage exists. The scheduler selects another node.
	//   - wraps [volume.ErrInfeasible]: no storage exists. The controller retries rarely, and at
	//     once when the claim's labels, annotations or node change, or its class.
	//   - *[volume.IgnoredError]: no storage exists, another provisioner is responsible.
	//   - *[RefusalError], with a volume: the storage exists, and the claim cannot have it.
	//   - any other error: no storage exists. The controller retries.
	//
	// The error of an ended context counts as uncertain unless it wraps volume.ErrTransient.
	Provision(ctx context.Context, options Options) (*v1.PersistentVolume, error)
	// Delete deletes the storage of a volume with all its files, and returns nil if the storage does
	// not exist. The controller retries after each error other than an *[volume.IgnoredError], which
	// leaves the volume to another provisioner; if none has deleted it after five minutes, the volume has an event.
	// Storage in use is an error that wraps
	// [volume.ErrTransient].
	Delete(ctx context.Context, pv *v1.PersistentVolume) error
}

// A RefusalError is the error of a Provision that has found or created storage which the claim cannot have, such as
// an empty volume in place of a copy. Provision returns it with the volume that describes the storage. The
// controller deletes the storage, unless the object of the volume is stored or the claim was bound. A Provisioner
// never deletes the storage itself: only the controller reads whether the volume is in use.
type RefusalError struct {
	Err error // the reason; the controller retries as after this error
}

// Error returns the text of the reason.
func (e *RefusalError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RefusalError) Unwrap() error { return e.Err }

// kindOf returns the kind of an error of a Provisioner. Unlike [volume.KindOf] it does not trust a
// context error to have changed nothing: many clients return one after the request was sent.
func kindOf(err error) volume.ErrorKind {
	isContext := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if isContext && !errors.Is(err, volume.ErrTransient) {
		return volume.Uncertain
	}
	return volume.KindOf(err)
}

// isIgnored reports whether another provisioner is responsible.
func isIgnored(err error) bool { return errors.As(err, new(*volume.IgnoredError)) }

// callProvision calls Provision. A refusal is the reason for which the claim cannot have the volume. A panic, and a
// result without a volume, are uncertain errors. The text of an error is short, however long its names and values
// are.
func callProvision(ctx context.Context, p Provisioner, options Options) (pv *v1.PersistentVolume, refusal, err error) {
	defer panics.AsUncertain(&err, nil)
	defer progress.Begin(ctx, progress.Step{Name: progress.Provision, Object: options.PVName})()
	pv, err = p.Provision(ctx, options)
	isRefused := errors.As(err, new(*RefusalError))
	switch {
	case isRefused && pv != nil:
		return pv, brief.Of(err), nil
	case isRefused:
		return nil, nil, volume.AsUncertain(fmt.Errorf("Provision returned no volume with the refusal: %w", brief.Of(err)))
	case err != nil:
		return nil, nil, brief.Of(err)
	case pv == nil:
		return nil, nil, volume.AsUncertain(errors.New("Provision returned neither a volume nor an error"))
	}
	return pv, nil, nil
}

// callDelete calls Delete. A panic is an uncertain error. The text of an error is short.
func callDelete(ctx context.Context, p Provisioner, pv *v1.PersistentVolume) (err error) {
	defer panics.AsUncertain(&err, nil)
	defer progress.Begin(ctx, progress.Step{Name: progress.Delete, Object: pv.Name})()
	return brief.Of(p.Delete(ctx, pv.DeepCopy()))
}
