package csi

import (
	"context"
	"fmt"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeExpand calls NodeExpandVolume, if the driver has the capability EXPAND_VOLUME; otherwise the error
// wraps [volume.ErrNotSupported]. It returns false without an error for a volume that is neither
// published nor staged, and if the driver reports a smaller size than the requested one.
//
// InvalidArgument, OutOfRange and NotFound of the driver are [volume.ErrInfeasible];
// FailedPrecondition, for a volume in use, is [volume.ErrFailedPrecondition]. A call whose outcome is
// unknown is repeated before a call for another size.
func (p *Plugin) NodeExpand(ctx context.Context, req volume.NodeResizeOptions) (_ bool, err error) {
	defer brief.Shorten(&err)
	if err := quantity.Check(&req.NewSize); err != nil {
		return false, field.Invalid(field.NewPath("req", "newSize"), quantity.Text(&req.NewSize), err.Error())
	}
	s, err := sourceOf(req.Spec)
	switch {
	case err != nil:
		return false, err
	case s.persistent == nil:
		return false, fmt.Errorf("expand inline volume %s: %w", s.name, volume.ErrNotSupported)
	case p.host == nil:
		return false, errNotInitialised
	case ctx.Err() != nil:
		return false, volume.AsTransient(ctxend.Error(ctx))
	}
	if err := p.checkPaths(req); err != nil {
		return false, err
	}
	done, err := p.expand(ctx, s, req)
	if err != nil {
		return false, fmt.Errorf("expand volume %s: %w", input.Quote(s.name), err)
	}
	return done, nil
}

// checkPaths refuses paths that are not those of volumes.
func (p *Plugin) checkPaths(req volume.NodeResizeOptions) error {
	at := field.NewPath("req")
	for name, written := range map[string]string{"volumePath": req.VolumePath, "deviceStagePath": req.DeviceStagePath} {
		if written == "" {
			continue
		}
		if _, err := p.mounts.Below(at.Child(name), written); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plugin) expand(ctx context.Context, s source, req volume.NodeResizeOptions) (bool, error) {
	c, caps, err := p.clientOf(ctx, s.driver)
	if err != nil {
		return false, err
	}
	if !caps.expand {
		return false, fmt.Errorf("driver %s has no EXPAND_VOLUME: %w", s.driver, volume.ErrNotSupported)
	}
	request := &csipb.NodeExpandVolumeRequest{
		VolumeId: s.handle, VolumePath: req.VolumePath,
		CapacityRange: &csipb.CapacityRange{RequiredBytes: req.NewSize.Value()},
	}
	if caps.stage {
		request.StagingTargetPath = req.DeviceStagePath
	}
	if request.VolumePath == "" {
		request.VolumePath = request.StagingTargetPath
	}
	if request.VolumePath == "" || request.CapacityRange.RequiredBytes <= 0 {
		return false, nil
	}
	if req.Spec.IsBlock() {
		request.VolumeCapability = s.blockCapability(caps)
	} else {
		request.VolumeCapability = s.mountCapability(caps, nil, "")
	}
	if request.Secrets, err = p.secretsOf(ctx, s.persistent.NodeExpandSecretRef); err != nil {
		return false, err
	}
	size := make(chan int64, 1)
	err = p.exclusively(ctx, s.driver, s.handle, func(ctx context.Context) error {
		answer, err := p.expands.call(ctx, c, request)
		size <- answer.GetCapacityBytes()
		return err
	})
	if err != nil {
		return false, connection.ExpansionError(err)
	}
	reached := <-size
	return reached == 0 || reached >= request.CapacityRange.RequiredBytes, nil // 0: not reported
}

// pendingExpansions are the calls whose outcome is unknown, by volume. The zero value has none.
type pendingExpansions struct {
	mu  sync.Mutex
	all map[string]*csipb.NodeExpandVolumeRequest
}

// call sends the request as the only call for the volume, after a pending one for another size.
func (e *pendingExpansions) call(ctx context.Context, c *client, request *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	name := volumeName(c.Name, request.VolumeId)
	if pending := e.pendingFor(name); pending != nil && !proto.Equal(pending.CapacityRange, request.CapacityRange) {
		pending.Secrets = request.Secrets
		if _, err := e.send(ctx, c, name, pending); err != nil && volume.KindOf(err) != volume.Final {
			return nil, fmt.Errorf("repeat the interrupted expansion: %w", err)
		}
	}
	return e.send(ctx, c, name, request)
}

// forget drops the pending call for a volume at a path that is no longer published or staged.
func (e *pendingExpansions) forget(name, at string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pending := e.all[name]; pending != nil && (pending.VolumePath == at || pending.StagingTargetPath == at) {
		delete(e.all, name)
	}
}

// pendingFor returns a copy of the pending request, without secrets, or nil.
func (e *pendingExpansions) pendingFor(name string) *csipb.NodeExpandVolumeRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pending := e.all[name]; pending != nil {
		return proto.Clone(pending).(*csipb.NodeExpandVolumeRequest)
	}
	return nil
}

func (e *pendingExpansions) send(ctx context.Context, c *client, name string, request *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	answer, err := c.node.NodeExpandVolume(ctx, request)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch volume.KindOf(err) {
	case volume.Success, volume.Final:
		delete(e.all, name)
	case volume.Uncertain:
		if e.all == nil {
			e.all = map[string]*csipb.NodeExpandVolumeRequest{}
		}
		bare := proto.Clone(request).(*csipb.NodeExpandVolumeRequest)
		bare.Secrets = nil
		e.all[name] = bare
	}
	return answer, err
}
