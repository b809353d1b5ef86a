package sidecar

import (
	"context"
	"errors"
	"fmt"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc"
)

// An exclusiveController makes one call for a volume at a time, of those that change an existing volume: the
// specification leaves the order of calls in flight to the caller. A call that has not begun when its context
// ends fails with a transient error, and so does one at once that would wait behind too many others.
type exclusiveController struct {
	csipb.ControllerClient
	volumes *volumeLocks
}

func (c exclusiveController) ControllerPublishVolume(ctx context.Context, in *csipb.ControllerPublishVolumeRequest, options ...grpc.CallOption) (*csipb.ControllerPublishVolumeResponse, error) {
	return exclusively(ctx, c, in, c.ControllerClient.ControllerPublishVolume, options)
}

func (c exclusiveController) ControllerUnpublishVolume(ctx context.Context, in *csipb.ControllerUnpublishVolumeRequest, options ...grpc.CallOption) (*csipb.ControllerUnpublishVolumeResponse, error) {
	return exclusively(ctx, c, in, c.ControllerClient.ControllerUnpublishVolume, options)
}

func (c exclusiveController) ControllerExpandVolume(ctx context.Context, in *csipb.ControllerExpandVolumeRequest, options ...grpc.CallOption) (*csipb.ControllerExpandVolumeResponse, error) {
	return exclusively(ctx, c, in, c.ControllerClient.ControllerExpandVolume, options)
}

func (c exclusiveController) ControllerModifyVolume(ctx context.Context, in *csipb.ControllerModifyVolumeRequest, options ...grpc.CallOption) (*csipb.ControllerModifyVolumeResponse, error) {
	return exclusively(ctx, c, in, c.ControllerClient.ControllerModifyVolume, options)
}

func (c exclusiveController) DeleteVolume(ctx context.Context, in *csipb.DeleteVolumeRequest, options ...grpc.CallOption) (*csipb.DeleteVolumeResponse, error) {
	return exclusively(ctx, c, in, c.ControllerClient.DeleteVolume, options)
}

// exclusively makes a call as the only one for its volume.
func exclusively[R interface{ GetVolumeId() string }, A any](ctx context.Context, c exclusiveController, in R,
	call func(context.Context, R, ...grpc.CallOption) (*A, error), options []grpc.CallOption,
) (*A, error) {
	unlock, err := c.volumes.lock(ctx, in.GetVolumeId())
	if err != nil {
		return nil, volume.AsTransient(fmt.Errorf("wait for another call for the volume: %w", err))
	}
	defer unlock()
	return call(ctx, in, options...)
}

// volumeLocks lock volumes by their IDs. Few calls wait for one volume: a driver that hangs in a call for a volume
// with many nodes would occupy all workers otherwise.
type volumeLocks struct {
	locks keylock.Map
	most  int // calls that wait for one volume

	mu      sync.Mutex
	waiting map[string]int // calls, by volume
}

func newVolumeLocks(most int) *volumeLocks {
	return &volumeLocks{most: most, waiting: map[string]int{}}
}

// errCrowded ends a call that would wait behind too many others.
var errCrowded = errors.New("too many calls wait")

// lock locks a volume. It waits unless too many calls do, or until ctx ends.
func (v *volumeLocks) lock(ctx context.Context, id string) (unlock func(), err error) {
	if unlock, ok := v.locks.TryLock(id); ok {
		return unlock, nil
	}
	if !v.join(id) {
		return nil, errCrowded
	}
	defer v.leave(id)
	return v.locks.Lock(ctx, id)
}

// join counts a waiting call, and reports whether it may wait.
func (v *volumeLocks) join(id string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.waiting[id] >= v.most {
		return false
	}
	v.waiting[id]++
	return true
}

func (v *volumeLocks) leave(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.waiting[id]--; v.waiting[id] == 0 {
		delete(v.waiting, id)
	}
}
