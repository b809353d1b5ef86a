package sidecar

import (
	"fmt"

	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
)

// createError returns the error of CreateVolume with the kind that package provision acts on:
//
//	InvalidArgument, OutOfRange    infeasible: no storage exists
//	ResourceExhausted              with a selected node and a topology: no storage exists, another node may do
//	AlreadyExists                  transient: storage of the name exists, which an earlier run has made with
//	                               other arguments; it is never given up
//	Canceled, DeadlineExceeded,    uncertain: the call is repeated
//	Unavailable, Aborted
//	others                         final: no storage exists
//
// Internal is the code of an answer that has not arrived as a whole, too, and uncertain then.
func createError(err error, mayReschedule bool) error {
	if volume.KindOf(err) == volume.Transient { // not sent
		return err
	}
	switch codeOf(err) {
	case codes.InvalidArgument, codes.OutOfRange:
		return fmt.Errorf("%w: %w", err, volume.ErrInfeasible)
	case codes.AlreadyExists:
		return volume.AsTransient(err)
	case codes.ResourceExhausted:
		if mayReschedule {
			return fmt.Errorf("%v: %w", err, volume.ErrReschedule) // without the kind of err
		}
	}
	return err
}
