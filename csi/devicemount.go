package csi

import (
	"context"
	"errors"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/hostfile"
	"github.com/volumekit/volumekit/csi/internal/stageuse"
	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NewDeviceMounter returns the mounter of all persistent volumes.
func (p *Plugin) NewDeviceMounter() (volume.DeviceMounter, error) { return p.deviceMounter() }

// NewDeviceUnmounter returns the unmounter of all persistent volumes.
func (p *Plugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) { return p.deviceMounter() }

func (p *Plugin) deviceMounter() (*deviceMounter, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	return &deviceMounter{p}, nil
}

// GetDeviceMountRefs returns the other mount points of the mount at deviceMountPath; for a missing path
// the list is empty.
func (p *Plugin) GetDeviceMountRefs(ctx context.Context, deviceMountPath string) ([]string, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	return p.mounts.DeviceMountRefs(ctx, deviceMountPath)
}

type deviceMounter struct{ plugin *Plugin }

// persistentSourceOf is mountedSourceOf for a persistent volume.
func persistentSourceOf(spec *volume.Spec) (source, error) {
	s, err := mountedSourceOf(spec)
	if err == nil && s.persistent == nil {
		err = fmt.Errorf("stage inline volume %s: %w", s.name, volume.ErrNotSupported)
	}
	return s, err
}

// GetDeviceMountPath implements [volume.DeviceMounter]:
// <root>/plugins/kubernetes.io/csi/<driver>/<SHA-256 of the handle>/globalmount.
func (m *deviceMounter) GetDeviceMountPath(spec *volume.Spec) (string, error) {
	s, err := persistentSourceOf(spec)
	if err != nil {
		return "", err
	}
	t, err := m.plugin.stagingTarget(s.driver, s.handle)
	return t.path, err
}

// MountDevice implements [volume.DeviceMounter]: it calls NodeStageVolume, if the driver has the
// capability STAGE_UNSTAGE_VOLUME. Otherwise it only repeats an interrupted NodeUnstageVolume. The path must be
// the result of GetDeviceMountPath.
//
// A volume stays staged for the group of its first pod: a later call with another group repeats the
// first one. A volume that is staged with other mount options or another access mode is
// [volume.ErrAlreadyMounted].
func (m *deviceMounter) MountDevice(ctx context.Context, spec *volume.Spec, deviceMountPath string, args volume.DeviceMounterArgs) (err error) {
	defer brief.Shorten(&err)
	s, err := persistentSourceOf(spec)
	if err != nil {
		return err
	}
	p := m.plugin
	t, err := p.stagingTarget(s.driver, s.handle)
	if err != nil {
		return err
	}
	if at := field.NewPath("deviceMountPath"); deviceMountPath != t.path {
		return volume.Invalid(at, deviceMountPath, "must be the result of GetDeviceMountPath")
	}
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	call, err := m.newCall(ctx, s, t, args)
	switch {
	case err != nil:
	case call == nil:
		err = p.mounts.Exclusively(ctx, t.path, func(ctx context.Context, _ string) error { return p.skip(ctx, t, s.driver) })
	default:
		call.ownPath = true
		call.reserve = func(ctx context.Context) (func(), bool) { return p.reserveUnpublished(ctx, t, s.driver) }
		err = p.mounts.Exclusively(ctx, t.path, func(ctx context.Context, _ string) error { return call.run(ctx) })
	}
	if err != nil {
		return fmt.Errorf("stage volume %s: %w", input.Quote(s.name), err)
	}
	return nil
}

// skip records that a driver does not stage any more: what an earlier call did is unknown, and no pod may
// have the volume from the staging path, should the driver stage again. An interrupted tear-down is repeated:
// the pods would have the volume before it is unstaged. The caller holds the lock of the target.
func (p *Plugin) skip(ctx context.Context, t target, driver string) error {
	data, err := p.readStaged(t, driver)
	if err != nil {
		return nil // not staged, or not by a known call
	}
	call := p.callOfThisBoot(data)
	if call == nil || call.State == voldata.Skipped {
		return nil
	}
	if call.State != voldata.Reverting {
		return util.Transient(p.files.writeState(t.file, data, data.WithState(voldata.Skipped)))
	}
	end, err := p.uses.Unstage(t.path)
	if err != nil {
		return volume.AsTransient(err)
	}
	defer end()
	if err := p.unstageAt(ctx, t, data, nil); err != nil {
		return fmt.Errorf("repeat the interrupted tear-down: %w", err)
	}
	return nil
}

// newCall reads all arguments of the call. It returns nil for a driver that does not stage.
func (m *deviceMounter) newCall(ctx context.Context, s source, t target, args volume.DeviceMounterArgs) (*upCall[*csipb.NodeStageVolumeRequest], error) {
	p := m.plugin
	if err := volume.ValidateID(field.NewPath("args", "fsGroup"), args.FsGroup); err != nil {
		return nil, err
	}
	policy, err := p.policyOf(ctx, s.driver)
	if err == nil {
		err = checkLabel(args.SELinuxLabel, policy)
	}
	if err != nil {
		return nil, err
	}
	c, caps, err := p.clientOf(ctx, s.driver)
	if err != nil || !caps.stage {
		return nil, err
	}
	data := voldata.Data{VolumeHandle: s.handle, DriverName: s.driver, SELinux: args.SELinuxLabel}
	capability := s.mountCapability(caps, args.FsGroup, args.SELinuxLabel)
	return p.newStageCall(ctx, c, s, policy, t, data, capability)
}

// newStageCall returns the call that stages a volume, to be mounted or as a device.
func (p *Plugin) newStageCall(ctx context.Context, c *client, s source, policy driverPolicy, t target, data voldata.Data, capability *csipb.VolumeCapability) (*upCall[*csipb.NodeStageVolumeRequest], error) {
	published, err := p.publishContext(ctx, s, policy)
	if err != nil {
		return nil, err
	}
	secrets, err := p.secretsOf(ctx, s.stageSecretRef())
	if err != nil {
		return nil, err
	}
	return &upCall[*csipb.NodeStageVolumeRequest]{
		plugin: p, target: t, data: data, dir: t.path,
		request: &csipb.NodeStageVolumeRequest{
			VolumeId: s.handle, PublishContext: published, StagingTargetPath: t.path,
			VolumeCapability: capability, Secrets: secrets, VolumeContext: merged(s.attributes),
		},
		send: func(ctx context.Context, request *csipb.NodeStageVolumeRequest) error {
			_, err := c.node.NodeStageVolume(ctx, request)
			return err
		},
		revert: func(ctx context.Context) error {
			return p.exclusively(ctx, s.driver, s.handle, func(ctx context.Context) error {
				return unstage(ctx, c, s.handle, t.path)
			})
		},
	}, nil
}

func (s source) stageSecretRef() *v1.SecretReference { return s.persistent.NodeStageSecretRef }

func unstage(ctx context.Context, c *client, handle, at string) error {
	_, err := c.node.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: handle, StagingTargetPath: at})
	return err
}

// checkStagedAt returns a transient error for a volume that is not staged.
func (p *Plugin) checkStagedAt(t target, wanted voldata.Data) error {
	data, err := p.readData(t)
	switch {
	case err != nil:
	case !data.SameVolume(wanted):
		err = fmt.Errorf("%w: %s: %w", errBrokenData, t.file, errOtherVolume)
	case data.Call == nil: // a kubelet has staged the volume
		return nil
	case bootid.IsEarlier(data.Call.Boot, p.boot):
		err = errors.New("the volume was staged before the start of the system")
	case data.Call.State == voldata.Reverting:
		err = stageuse.ErrUnstaging
	case data.Call.State == voldata.Skipped:
		err = errors.New("the driver did not stage volumes when the volume was to be staged")
	default:
		return nil
	}
	return notStaged(t.path, err)
}

// notStaged returns the error for a volume that is not staged.
func notStaged(staging string, cause error) error {
	return volume.AsTransient(fmt.Errorf("%w: %s: %w", volume.ErrNotMounted, staging, cause))
}

// UnmountDevice implements [volume.DeviceUnmounter]: it calls NodeUnstageVolume, by the data in the file
// beside the path, also of a driver that has lost the capability STAGE_UNSTAGE_VOLUME since it staged. If
// the file is broken, or missing from a mounted volume, a pod's file that names the volume replaces it;
// otherwise the error is uncertain and wraps [ErrUnknownVolume]. A volume without a file and a mount is
// not staged.
//
// The caller has unpublished the volume: see GetDeviceMountRefs. While a call publishes the volume the error is
// transient.
func (m *deviceMounter) UnmountDevice(ctx context.Context, deviceMountPath string) (err error) {
	defer brief.Shorten(&err)
	p := m.plugin
	t, driver, err := p.stagingTargetAt(field.NewPath("deviceMountPath"), deviceMountPath)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	err = p.mounts.Exclusively(ctx, t.path, func(ctx context.Context, _ string) error {
		end, err := p.uses.Unstage(t.path)
		if err != nil {
			return volume.AsTransient(err)
		}
		defer end()
		data, file, err := p.openData(t)
		if err != nil || checkStagedIn(t, data, driver) != nil {
			closeFile(file)
			file = nil // a repair replaces the file
			data, err = p.stagedDataOf(ctx, t, driver)
		}
		defer closeFile(file)
		if errors.Is(err, volume.ErrNotMounted) {
			return nil
		}
		if err != nil {
			return err
		}
		return p.unstageAt(ctx, t, data, file)
	})
	if err != nil {
		return fmt.Errorf("unstage the volume at %s: %w", t.path, err)
	}
	return nil
}

func (p *Plugin) unstageAt(ctx context.Context, t target, data voldata.Data, file *hostfile.Open) error {
	c, caps, err := p.clientOf(ctx, data.DriverName)
	if err != nil {
		return downError(err)
	}
	down := downCall{plugin: p, target: t, data: data, file: file}
	may, err := p.mayBeStaged(ctx, t, data, caps)
	if err != nil {
		return util.Transient(err)
	}
	if may {
		down.send = func(ctx context.Context) error { return unstageWith(ctx, c, caps, data.VolumeHandle, t.path) }
	}
	return down.run(ctx)
}

// mayBeStaged reports whether the driver may have staged the volume of a file. It may have lost the capability
// since: then the recorded call shows that, or the mount, since a kubelet records no call.
func (p *Plugin) mayBeStaged(ctx context.Context, t target, data voldata.Data, caps capabilities) (bool, error) {
	if caps.stage || p.callOfThisBoot(data) != nil {
		return true, nil
	}
	return p.isMounted(ctx, t.path)
}

// unstageWith calls NodeUnstageVolume. A driver without the capability need not implement the call: the caller
// finds the mount that remains then.
func unstageWith(ctx context.Context, c *client, caps capabilities, handle, at string) error {
	err := unstage(ctx, c, handle, at)
	if !caps.stage && hasCode(err, codes.Unimplemented) {
		return nil
	}
	return err
}
