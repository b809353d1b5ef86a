package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

type blockMapper struct {
	blockVolume
	source source
	pod    *v1.Pod
}

// A deviceCall has the arguments of calls for a device that are read before the volume's lock is taken.
type deviceCall struct {
	client *client
	caps   capabilities
	policy driverPolicy
	stage  *upCall[*csipb.NodeStageVolumeRequest] // nil: the driver does not stage
}

func (m *blockMapper) newCall(ctx context.Context) (d deviceCall, err error) {
	p, s := m.plugin, m.source
	if d.policy, err = p.policyOf(ctx, s.driver); err != nil {
		return d, err
	}
	if err := d.policy.checkMode(s.driver, s.lifecycleMode()); err != nil {
		return d, err
	}
	if d.client, d.caps, err = p.clientOf(ctx, s.driver); err != nil || !d.caps.stage {
		return d, err
	}
	d.stage, err = p.newStageCall(ctx, d.client, s, d.policy, m.stagingTarget(), m.data(), s.blockCapability(d.caps))
	if err == nil {
		d.stage.finish = func(context.Context) error { return nil } // the file shows that the device is staged: see ensureStaged
		d.stage.reserve = func(context.Context) (func(), bool) { return func() {}, m.checkUnpublished() == nil }
	}
	return d, err
}

// data returns the data in the file of the device, as a kubelet writes it.
func (m *blockMapper) data() voldata.Data {
	data := m.plugin.podData(m.source, "")
	data.LifecycleMode = ""
	return data
}

// SetUpDevice implements [volume.BlockVolumeMapper]: it calls NodeStageVolume, if the driver has the
// capability STAGE_UNSTAGE_VOLUME, and returns the staging path. Otherwise it writes the file of the
// volume, and returns an empty path.
func (m *blockMapper) SetUpDevice(ctx context.Context, _ volume.BlockVolumePaths) (string, error) {
	call, err := m.newCall(ctx)
	if err == nil {
		err = m.exclusively(ctx, func(ctx context.Context) error { return m.stage(ctx, call) })
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("stage block volume %s: %w", input.Quote(m.name), err)
	case call.stage == nil:
		return "", nil
	}
	return m.paths.staging, nil
}

func (m *blockMapper) stage(ctx context.Context, call deviceCall) error {
	if call.stage != nil {
		return call.stage.run(ctx)
	}
	before, err := m.plugin.files.read(m.paths.data)
	switch {
	case err == nil && !before.SameVolume(m.data()):
		return fmt.Errorf("%s: %w: it has volume %s", m.paths.data, volume.ErrAlreadyMounted, input.Quote(before.VolumeHandle))
	case err == nil && m.isUnstaging(before):
		unmapper := blockUnmapper{m.blockVolume}
		if err := unmapper.tearDownDevice(ctx); err != nil {
			return fmt.Errorf("repeat the interrupted tear-down: %w", err)
		}
	case err == nil:
		return util.Transient(m.plugin.files.SyncName(m.paths.data)) // an earlier write may have been interrupted
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errBrokenData):
		return util.Transient(err)
	}
	t, data := m.stagingTarget(), m.data()
	data.Repaired = errors.Is(err, errBrokenData)
	if made, err := m.plugin.files.create(t.file, data); err != nil {
		return errors.Join(util.Transient(err), revertDirs(made, t.own[0]))
	}
	return nil
}

// MapPodDevice implements [volume.BlockVolumeMapper]: it calls NodePublishVolume, after SetUpDevice if the
// device has not been set up, and returns the path of the device.
func (m *blockMapper) MapPodDevice(ctx context.Context, _ volume.BlockVolumePaths) (string, error) {
	call, err := m.newCall(ctx)
	var publish *upCall[*csipb.NodePublishVolumeRequest]
	if err == nil {
		publish, err = m.newPublishCall(ctx, call)
	}
	if err == nil {
		err = m.exclusively(ctx, func(ctx context.Context) error { return m.mapDevice(ctx, call, publish) })
	}
	if err != nil {
		return "", fmt.Errorf("publish block volume %s: %w", input.Quote(m.name), err)
	}
	return m.published(), nil
}

func (m *blockMapper) newPublishCall(ctx context.Context, call deviceCall) (*upCall[*csipb.NodePublishVolumeRequest], error) {
	p, s, c := m.plugin, m.source, call.client
	request := &csipb.NodePublishVolumeRequest{
		VolumeId: s.handle, TargetPath: m.published(), Readonly: s.readOnly, VolumeCapability: s.blockCapability(call.caps),
	}
	if call.stage != nil {
		request.StagingTargetPath = m.paths.staging
	}
	if err := p.addContext(ctx, request, s, m.pod, call.policy); err != nil {
		return nil, err
	}
	return &upCall[*csipb.NodePublishVolumeRequest]{
		plugin: p, target: m.podTarget(), data: m.data(), request: request, dir: m.paths.publish, staging: m.paths.staging,
		send: func(ctx context.Context, request *csipb.NodePublishVolumeRequest) error {
			_, err := c.node.NodePublishVolume(ctx, request)
			return err
		},
		revert: func(ctx context.Context) error { return p.unpublish(ctx, c, s.handle, m.published()) },
		isUp:   func(ctx context.Context, _ bool) (bool, error) { return m.hasDevice(ctx) },
		toKubelet: func(request *csipb.NodePublishVolumeRequest) {
			request.Readonly, request.StagingTargetPath = s.isReadOnlyForKubelet(), m.paths.staging
		},
	}, nil
}

// mapDevice makes the link, publishes the device, and removes the link if the device is not published.
func (m *blockMapper) mapDevice(ctx context.Context, call deviceCall, publish *upCall[*csipb.NodePublishVolumeRequest]) error {
	err := m.checkMapped()
	wasMapped := err == nil
	if !wasMapped && !errors.Is(err, volume.ErrNotMounted) {
		return fmt.Errorf("%w: %s: %w", volume.ErrAlreadyMounted, m.link(), errors.Unwrap(err))
	}
	if err := m.ensureStaged(ctx, call); err != nil {
		return err
	}
	made := ""
	if !wasMapped {
		if made, err = mkdir(m.plugin.host.Root(), m.podDir); err == nil {
			err = m.plugin.files.MakeLink(m.published(), m.link())
		}
		if err != nil {
			return errors.Join(util.Transient(err), revertDirs(made, m.podDir))
		}
	}
	publish.keep = wasMapped
	if data, err := m.plugin.readData(m.stagingTarget()); err == nil && data.Repaired {
		publish.toKubelet = nil // the program that has published the device is unknown
	}
	err = publish.run(ctx)
	if err == nil || wasMapped || volume.KindOf(err) == volume.Uncertain || publish.keep {
		return err
	}
	clean := errors.Join(m.plugin.files.RemoveLink(m.link()), revertDirs(made, m.podDir))
	if clean != nil {
		return volume.AsUncertain(fmt.Errorf("%w (cleaning up: %w)", err, clean))
	}
	return err
}

// isUnstaging reports whether the device is being unstaged: the driver may have lost the capability since.
func (m *blockMapper) isUnstaging(data voldata.Data) bool {
	call := m.plugin.callOfThisBoot(data)
	return call != nil && call.State == voldata.Reverting
}

// ensureStaged stages a device that no earlier call has staged for certain.
func (m *blockMapper) ensureStaged(ctx context.Context, call deviceCall) error {
	data, err := m.plugin.readData(m.stagingTarget())
	if err != nil || !data.SameVolume(m.data()) {
		return m.stage(ctx, call)
	}
	if call.stage == nil && !m.isUnstaging(data) {
		return nil
	}
	if call.stage == nil {
		return m.stage(ctx, call)
	}
	switch earlier := m.plugin.callOfThisBoot(data); {
	case earlier == nil, earlier.State == voldata.Sent, earlier.State == voldata.Failed:
		return m.stage(ctx, call)
	}
	return m.plugin.checkStagedAt(m.stagingTarget(), m.data())
}
