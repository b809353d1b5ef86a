package csi

import (
	"context"
	"fmt"
	"path"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A podVolume is the place of a volume in a pod.
type podVolume struct {
	plugin *Plugin
	target target
}

// GetPath returns the path of the volume for the pod.
func (v podVolume) GetPath() string { return v.target.path }

type mounter struct {
	podVolume
	source source
	pod    *v1.Pod
}

// GetAttributes returns ReadOnly as the specification has it. Managed is true for a volume that may
// change its group.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.source.readOnly, Managed: !m.source.readOnly, SELinuxRelabel: true}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.setUp(ctx, m.target, args)
}

// SetUpAt implements [volume.Mounter]: it calls NodePublishVolume. The directory must be below the
// host's root or a target directory, and not the plugin's own.
//
// The volume is published read-only if its specification says so. A pod that only reads
// (MounterArgs.ReadOnly) gets it writable, as with a kubelet, which leaves that to the mounts of the
// containers: a group must be able to read. FsUser has no effect, as in Kubernetes.
//
// A driver that is not registered is a transient error that wraps [ErrNotRegistered]. A volume that has
// to be staged and is not is a transient error that wraps [volume.ErrNotMounted].
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	t, err := m.plugin.targetAt(field.NewPath("dir"), dir)
	if err != nil {
		return err
	}
	return m.setUp(ctx, t, args)
}

func (m *mounter) setUp(ctx context.Context, t target, args volume.MounterArgs) (err error) {
	defer brief.Shorten(&err)
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	call, err := m.newCall(ctx, t, args)
	if err != nil {
		return fmt.Errorf("publish volume %s: %w", input.Quote(m.source.name), err)
	}
	err = m.plugin.mounts.Exclusively(ctx, t.path, func(ctx context.Context, _ string) error {
		if staging := call.request.StagingTargetPath; staging != "" {
			end, err := m.plugin.uses.Publish(staging)
			if err != nil {
				return notStaged(staging, err)
			}
			defer end()
			if err := m.plugin.checkStagedAt(stagingIn(path.Dir(staging)), call.data); err != nil {
				return err
			}
		}
		return call.run(ctx)
	})
	if err != nil {
		return fmt.Errorf("publish volume %s: %w", input.Quote(m.source.name), err)
	}
	return nil
}

// newCall reads all arguments of the call. It changes nothing.
func (m *mounter) newCall(ctx context.Context, t target, args volume.MounterArgs) (*upCall[*csipb.NodePublishVolumeRequest], error) {
	p, s := m.plugin, m.source
	unlabelled := args
	unlabelled.SELinuxLabel = ""
	if err := podvolume.RefuseSizeAndLabel("a CSI volume", unlabelled); err != nil {
		return nil, err
	}
	if err := volume.ValidateID(field.NewPath("args", "fsGroup"), args.FsGroup); err != nil {
		return nil, err
	}
	policy, err := p.policyOf(ctx, s.driver)
	if err == nil {
		err = policy.checkMode(s.driver, s.lifecycleMode())
	}
	if err == nil {
		err = checkLabel(args.SELinuxLabel, policy)
	}
	if err != nil {
		return nil, err
	}
	c, caps, err := p.clientOf(ctx, s.driver)
	if err != nil {
		return nil, err
	}
	request := &csipb.NodePublishVolumeRequest{
		VolumeId: s.handle, TargetPath: t.path, Readonly: s.readOnly,
		VolumeCapability: s.mountCapability(caps, args.FsGroup, args.SELinuxLabel),
	}
	staging := ""
	if s.persistent != nil {
		at, err := p.stagingTarget(s.driver, s.handle)
		if err != nil {
			return nil, err
		}
		staging = at.path
	}
	if caps.stage {
		request.StagingTargetPath = staging
	}
	if err := p.addContext(ctx, request, s, m.pod, policy); err != nil {
		return nil, err
	}
	call := &upCall[*csipb.NodePublishVolumeRequest]{
		plugin: p, target: t, data: p.podData(s, args.SELinuxLabel), request: request,
		dir: path.Dir(t.path), keep: args.IsRemount, staging: staging,
		send: func(ctx context.Context, request *csipb.NodePublishVolumeRequest) error {
			_, err := c.node.NodePublishVolume(ctx, request)
			return err
		},
		revert: func(ctx context.Context) error { return p.unpublish(ctx, c, s.handle, t.path) },
		isUp: func(ctx context.Context, existed bool) (bool, error) {
			if !existed {
				return false, nil
			}
			return p.isMounted(ctx, t.path)
		},
		toKubelet: func(request *csipb.NodePublishVolumeRequest) { request.Readonly = s.isReadOnlyForKubelet() },
	}
	if s.appliesGroup(args.FsGroup, policy.fsGroup) {
		call.finish = func(ctx context.Context) error { return p.applyGroup(ctx, t.path, args) }
		call.resume = func(ctx context.Context) error { return p.applyGroup(ctx, t.path, onRootMismatch(args)) }
	}
	return call, nil
}

// addContext adds the arguments of other sources: the publish context, secrets, tokens and the pod.
func (p *Plugin) addContext(ctx context.Context, request *csipb.NodePublishVolumeRequest, s source, pod *v1.Pod, policy driverPolicy) (err error) {
	if request.PublishContext, err = p.publishContext(ctx, s, policy); err != nil {
		return err
	}
	if request.Secrets, err = p.secretsOf(ctx, s.publishSecretRef(pod)); err != nil {
		return err
	}
	request.VolumeContext = merged(s.attributes)
	if policy.podInfo {
		request.VolumeContext = merged(s.attributes, podInfo(pod, s.inline != nil))
	}
	if s.spec.IsBlock() {
		return nil // as with a kubelet
	}
	tokens, err := p.tokensFor(ctx, pod, policy.tokens)
	switch {
	case err != nil || tokens == "":
		return err
	case policy.tokensInSecrets:
		request.Secrets = merged(request.Secrets, map[string]string{tokensKey: tokens})
	default:
		request.VolumeContext = merged(request.VolumeContext, map[string]string{tokensKey: tokens})
	}
	return nil
}

// publishContext returns the metadata of the volume's attachment.
func (p *Plugin) publishContext(ctx context.Context, s source, policy driverPolicy) (map[string]string, error) {
	if !p.isAttachable(s, policy) {
		return nil, nil
	}
	metadata, err := p.config.Attachments.WaitForAttachment(ctx, s.driver, s.handle)
	if err != nil {
		return nil, util.Transient(fmt.Errorf("read the attachment: %w", err))
	}
	return merged(metadata), nil
}

func (s source) lifecycleMode() storagev1.VolumeLifecycleMode {
	if s.inline != nil {
		return storagev1.VolumeLifecycleEphemeral
	}
	return storagev1.VolumeLifecyclePersistent
}

// podData returns the data of a published volume.
func (p *Plugin) podData(s source, label string) voldata.Data {
	node := p.host.NodeName()
	return voldata.Data{
		SpecVolumeID: s.name, VolumeHandle: s.handle, DriverName: s.driver, NodeName: string(node),
		AttachmentID: attachmentName(s.driver, s.handle, node), LifecycleMode: string(s.lifecycleMode()), SELinux: label,
	}
}

// unpublish calls NodeUnpublishVolume as the only call for the volume.
func (p *Plugin) unpublish(ctx context.Context, c *client, handle, at string) error {
	return p.exclusively(ctx, c.Name, handle, func(ctx context.Context) error {
		_, err := c.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: at})
		return err
	})
}
