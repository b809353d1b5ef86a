package planning

import (
	"errors"

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
)

// The reasons why a pod waits.
var (
	errRecreated  = errors.New("the deleted volume of the same name is still in use by earlier pods")
	ErrOccupied   = errors.New("another volume occupies the directory")
	ErrOnePod     = errors.New("the volume is for one pod at a time and in use by another pod")
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
