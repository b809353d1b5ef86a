package operation

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A Flight is an in-flight operation.
type Flight struct {
	Operation
	User  types.UID // the pod that needs the operation; empty for tear-downs
	Since time.Time
	Lane  LaneKey
	At    Backend

	// The rest is read and written by the loop alone.
	Cancel     context.CancelCauseFunc
	Cancelled  bool
	CheckAfter bool // check the mounts of the volume afterwards
	// TableEvents is the number of mount events at the start. Attached is the ID of the last
	// mount attached at the operation's mount point.
	TableEvents int
	Attached    uint64
}
