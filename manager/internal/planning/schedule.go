package planning

import (
	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/retry"
	v1 "k8s.io/api/core/v1"
)

// A Schedule is the state that holds operations back.
type Schedule struct {
	operation.Flights // including cancelled operations
	// Reported are the volumes that may be attached; nil: all.
	Reported map[v1.UniqueVolumeName]bool
	// Unrecognized are the leftovers, by plugin.
	Unrecognized map[string][]Leftover
	// UnrecognizedDirs are the directories of leftovers.
	UnrecognizedDirs map[naming.PodDir]bool
	// Retry holds the backoff of failed operations.
	Retry persistent.Map[operation.Operation, retry.FailedAttempt]
	// Revisions change when a volume that is up has to be set up again.
	Revisions naming.RevisionMap
}
