package unmounting

import "time"

// A Policy permits the steps of the escalation.
type Policy struct {
	MayForce, MayDetach bool
	// Grace limits the wait for the file system's answer, and then for force.
	Grace time.Duration
}
