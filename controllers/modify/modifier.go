package modify

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// A Modifier changes the attributes of volumes. Its methods are called concurrently, Modify for one claim at
// a time.
type Modifier interface {
	// Name returns the name of the driver that changes a volume; attributes classes name it. It is empty for
	// a volume of another program. Name does not block, and returns the same name each time.
	Name(pv *v1.PersistentVolume) string

	// Modify gives a volume the parameters of an attributes class. It is idempotent, and leaves attributes
	// without a parameter as they are. The kind of an error (package volume) is the state of the storage:
	//
	//   - final: nothing has changed. If the error wraps [volume.ErrInfeasible], the controller repeats the
	//     call rarely, until the claim asks for another class.
	//   - transient: this call has changed nothing.
	//   - uncertain: the attributes may have changed, or change later. The controller repeats the call for the
	//     same class until the outcome is known, also if the claim names another class meanwhile. A panic of
	//     Modify counts as an uncertain error.
	//
	// If ctx ends, Modify returns soon.
	Modify(ctx context.Context, req Request) error
}

// A Request asks for the parameters of a class. Its objects belong to the Modifier.
type Request struct {
	Claim      *v1.PersistentVolumeClaim
	Volume     *v1.PersistentVolume
	Class      string
	Parameters map[string]string
}
