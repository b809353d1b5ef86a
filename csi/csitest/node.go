package csitest

import (
	"context"
	"errors"
	"io/fs"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/mount"
)

// NodeGetCapabilities implements [csipb.NodeServer].
func (d *Driver) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	var all []*csipb.NodeServiceCapability
	for _, rpc := range d.config.Capabilities.Node {
		all = append(all, &csipb.NodeServiceCapability{Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: rpc}}})
	}
	return &csipb.NodeGetCapabilitiesResponse{Capabilities: all}, nil
}

// NodeGetInfo implements [csipb.NodeServer].
func (d *Driver) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	info := &csipb.NodeGetInfoResponse{NodeId: d.config.NodeID, MaxVolumesPerNode: d.config.MaxVolumesPerNode}
	if d.config.Topology != nil {
		info.AccessibleTopology = &csipb.Topology{Segments: d.config.Topology}
	}
	return info, nil
}

// fsType is the type of the file systems that the driver mounts.
const fsType = "csitest"

// NodeStageVolume implements [csipb.NodeServer].
func (d *Driver) NodeStageVolume(ctx context.Context, req *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	at, err := d.existing(req.GetVolumeId(), func(v *volumeState) *place { return v.staged.at(req.GetStagingTargetPath()) })
	if err != nil {
		return nil, err
	}
	if d.config.Mounter != nil && req.GetVolumeCapability().GetMount() != nil {
		err = d.config.Mounter.Mount(ctx, mount.Request{Source: req.GetVolumeId(), FSType: fsType, Target: req.GetStagingTargetPath()})
	}
	if err = d.apply(at, true, err); err != nil {
		return nil, err
	}
	return &csipb.NodeStageVolumeResponse{}, nil
}

// NodeUnstageVolume implements [csipb.NodeServer].
func (d *Driver) NodeUnstageVolume(ctx context.Context, req *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	at := d.placeOf(req.GetVolumeId(), func(v *volumeState) *place { return v.staged.at(req.GetStagingTargetPath()) })
	if err := d.apply(at, false, d.unmount(ctx, req.GetStagingTargetPath())); err != nil {
		return nil, err
	}
	return &csipb.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume implements [csipb.NodeServer].
func (d *Driver) NodePublishVolume(ctx context.Context, req *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	at, err := d.existing(req.GetVolumeId(), func(v *volumeState) *place { return v.published.at(req.GetTargetPath()) })
	if err != nil {
		return nil, err
	}
	if err = d.createTarget(at, req); err == nil {
		err = d.mountTarget(ctx, req)
	}
	if err = d.apply(at, true, err); err != nil {
		return nil, err
	}
	return &csipb.NodePublishVolumeResponse{}, nil
}

// createTarget creates the directory, or for a block volume the file, at the target.
func (d *Driver) createTarget(at *place, req *csipb.NodePublishVolumeRequest) error {
	target := req.GetTargetPath()
	_, err := d.config.Files.Lstat(target)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if req.GetVolumeCapability().GetBlock() != nil {
		err = d.config.Files.WriteFile(target, nil, 0o600)
	} else {
		err = d.config.Files.Mkdir(target, 0o750)
	}
	if err == nil {
		d.mu.Lock()
		at.created = true
		d.mu.Unlock()
	}
	return err
}

func (d *Driver) mountTarget(ctx context.Context, req *csipb.NodePublishVolumeRequest) error {
	if d.config.Mounter == nil {
		return nil
	}
	m := mount.Request{Source: req.GetStagingTargetPath(), Target: req.GetTargetPath()}
	switch {
	case req.GetVolumeCapability().GetBlock() != nil && d.config.Device == "":
		return nil
	case req.GetVolumeCapability().GetBlock() != nil:
		m.Source = d.config.Device
	case req.GetStagingTargetPath() == "": // also an inline volume of a driver that stages
		m.Source, m.FSType = req.GetVolumeId(), fsType
	}
	if req.GetReadonly() {
		m.Options = append(m.Options, "ro")
	}
	return d.config.Mounter.Mount(ctx, m)
}

// NodeUnpublishVolume implements [csipb.NodeServer].
func (d *Driver) NodeUnpublishVolume(ctx context.Context, req *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	at := d.placeOf(req.GetVolumeId(), func(v *volumeState) *place { return v.published.at(req.GetTargetPath()) })
	err := d.unmount(ctx, req.GetTargetPath())
	if err == nil {
		if err = d.config.Files.Remove(req.GetTargetPath()); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		d.mu.Lock()
		at.created = false
		d.mu.Unlock()
	}
	if err = d.apply(at, false, err); err != nil {
		return nil, err
	}
	return &csipb.NodeUnpublishVolumeResponse{}, nil
}

// unmount removes the mount at a path; a missing path is no error.
func (d *Driver) unmount(ctx context.Context, path string) error {
	if d.config.Mounter == nil {
		return nil
	}
	err := d.config.Mounter.Unmount(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// apply records the effect of a call, or returns the error that prevented it.
func (d *Driver) apply(at *place, inEffect bool, err error) error {
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at.inEffect = inEffect
	return nil
}

func (d *Driver) placeOf(volume string, of func(*volumeState) *place) *place {
	d.mu.Lock()
	defer d.mu.Unlock()
	return of(d.volume(volume))
}

// existing returns a place of a volume, or the error of a volume that does not exist.
func (d *Driver) existing(volume string, of func(*volumeState) *place) (*place, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.exists(volume) {
		return nil, status.Errorf(codes.NotFound, "volume %q does not exist", volume)
	}
	return of(d.volume(volume)), nil
}

// exists reports whether a volume exists. The caller holds d.mu.
func (d *Driver) exists(volume string) bool {
	return !d.config.KnownVolumes || d.volume(volume).creation.inEffect
}

// The statistics of each volume.
const (
	volumeBytes     = 1 << 30
	volumeUsedBytes = 1 << 20
	volumeInodes    = 1 << 16
	usedInodes      = 1 << 4
)

// NodeGetVolumeStats implements [csipb.NodeServer]. A volume of unknown capacity has 1 GiB.
func (d *Driver) NodeGetVolumeStats(_ context.Context, req *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volume(req.GetVolumeId())
	at := v.published[req.GetVolumePath()]
	if at == nil || !at.inEffect {
		at = v.staged[req.GetVolumePath()]
	}
	if at == nil || !at.inEffect {
		return nil, status.Errorf(codes.NotFound, "volume %q is not at the path", req.GetVolumeId())
	}
	response := &csipb.NodeGetVolumeStatsResponse{}
	if d.declaresNode(csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS) {
		bytes := int64(volumeBytes)
		if v.capacity > 0 {
			bytes = v.capacity
		}
		response.Usage = []*csipb.VolumeUsage{
			{Unit: csipb.VolumeUsage_BYTES, Total: bytes, Used: volumeUsedBytes, Available: bytes - volumeUsedBytes},
			{Unit: csipb.VolumeUsage_INODES, Total: volumeInodes, Used: usedInodes, Available: volumeInodes - usedInodes},
		}
	}
	if d.declaresNode(condition.Capability) {
		if err := condition.Set(response, condition.Condition{Message: "ok"}); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// NodeExpandVolume implements [csipb.NodeServer]. It returns the required size.
func (d *Driver) NodeExpandVolume(_ context.Context, req *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.exists(req.GetVolumeId()) {
		return nil, status.Errorf(codes.NotFound, "volume %q does not exist", req.GetVolumeId())
	}
	v := d.volume(req.GetVolumeId())
	v.capacity = max(v.capacity, req.GetCapacityRange().GetRequiredBytes())
	return &csipb.NodeExpandVolumeResponse{CapacityBytes: v.capacity}, nil
}
