package retry

import (
	"github.com/volumekit/volumekit/manager/internal/mountstate"
	"github.com/volumekit/volumekit/manager/internal/operation"
)

// A FailedAttempt is the backoff of a failed operation, and the mount state of the failure.
type FailedAttempt struct {
	Backoff
	Where mountstate.State
}

// A FailedOperation is an operation with its failed attempt.
type FailedOperation struct {
	operation.Operation
	FailedAttempt
}
