package planning

import (
	"errors"

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
)

// The reasons why a pod waits.
var (
	errRecreated  = errors.New("a volume of the same name that was deleted since is still there, for pods that have to go first")
	ErrOccupied   = errors.New("another volume is in its directory")
	ErrOnePod     = errors.New("the volume is for one pod at a time, and already in use by another")
	errUnreported = errors.New("the volume has not been reported as in use yet")
)

// WaitReason returns why a pod waits for its volume without a failure, or nil.
func (p *Planner) WaitReason(key naming.PodKey) error {
	v, ok := p.sharedStep(key)
	switch {
	case p.Want.Pods.Get(key) == nil:
		return nil
	case p.IsRecreated():
		return errRecreated
	case !p.needsSetUp(key):
		return nil
	case p.IsDirOccupied(key):
		return ErrOccupied
	case p.isHeldByOtherPod(key):
		return ErrOnePod
	case p.mustWaitForReaders(key):
		return operation.ErrMountedForReaders
	case ok && v == operation.Attach && p.isUnreported():
		return errUnreported
	case ok && v == operation.MountDevice && p.PlaceOccupant() != "":
		return ErrOccupied
	}
	return nil
}
