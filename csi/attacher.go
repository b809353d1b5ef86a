package csi

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CanAttach reports whether the volume has to be attached: it is persistent, and the CSIDriver object
// does not say that the driver attaches no volumes. Without [Config.Attachments] no volume has to be.
func (p *Plugin) CanAttach(ctx context.Context, spec *volume.Spec) (bool, error) {
	s, err := sourceOf(spec)
	if err != nil {
		return false, err
	}
	policy, err := p.policyOf(ctx, s.driver)
	return err == nil && p.isAttachable(s, policy), err
}

func (p *Plugin) isAttachable(s source, policy driverPolicy) bool {
	return p.config.Attachments != nil && s.persistent != nil && !policy.noAttach
}

// NewAttacher returns the attacher of this node. A controller attaches: the attacher waits.
func (p *Plugin) NewAttacher() (volume.Attacher, error) { return p.newAttacher() }

// NewDetacher returns the detacher of this node. A controller detaches: the detacher ends the interest
// in the volume.
func (p *Plugin) NewDetacher() (volume.Detacher, error) { return p.newAttacher() }

func (p *Plugin) newAttacher() (*attacher, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	return &attacher{p}, nil
}

// ReleaseAttached ends the interest in the attachment of a volume, named as by GetVolumeName. It does
// not block.
func (p *Plugin) ReleaseAttached(volumeName string) {
	if driver, handle, ok := splitVolumeName(volumeName); ok && p.config.Attachments != nil {
		p.config.Attachments.ReleaseAttachment(driver, handle)
	}
}

type attacher struct{ plugin *Plugin }

// Attach is WaitForAttach on the plugin's own node. For another node the error wraps
// [volume.ErrNotSupported].
func (a *attacher) Attach(ctx context.Context, spec *volume.Spec, node types.NodeName) (devicePath string, err error) {
	if err := a.checkNode(node); err != nil {
		return "", err
	}
	return a.WaitForAttach(ctx, spec, "", nil)
}

func (a *attacher) checkNode(node types.NodeName) error {
	if own := a.plugin.host.NodeName(); node != own {
		return fmt.Errorf("attach to node %q from node %q: %w", brief.Name(string(node)), own, volume.ErrNotSupported)
	}
	return nil
}

// WaitForAttach waits until the VolumeAttachment of the volume shows that the volume is attached, and
// returns the name of the VolumeAttachment, as a kubelet does. Errors are transient.
func (a *attacher) WaitForAttach(ctx context.Context, spec *volume.Spec, _ string, _ *v1.Pod) (_ string, err error) {
	defer brief.Shorten(&err)
	s, err := sourceOf(spec)
	if err != nil {
		return "", err
	}
	p := a.plugin
	policy, err := p.policyOf(ctx, s.driver)
	switch {
	case err != nil:
		return "", err
	case !p.isAttachable(s, policy):
		return "", nil
	}
	if _, err := p.config.Attachments.WaitForAttachment(ctx, s.driver, s.handle); err != nil {
		return "", util.Transient(fmt.Errorf("wait for the attachment of volume %q: %w", brief.Name(s.name), err))
	}
	return attachmentName(s.driver, s.handle, p.host.NodeName()), nil
}

// VolumesAreAttached reports the last known state. A volume whose state is not known counts as attached,
// and so does one that need not be attached.
func (a *attacher) VolumesAreAttached(ctx context.Context, specs []*volume.Spec, node types.NodeName) (map[*volume.Spec]bool, error) {
	if ctx.Err() != nil {
		return nil, volume.AsTransient(ctxend.Error(ctx))
	}
	if err := a.checkNode(node); err != nil {
		return nil, err
	}
	attached := make(map[*volume.Spec]bool, len(specs))
	for _, spec := range specs {
		s, err := sourceOf(spec)
		if err != nil {
			return nil, err
		}
		policy, err := a.plugin.policyOf(ctx, s.driver)
		if err != nil {
			return nil, err
		}
		attached[spec] = true
		if a.plugin.isAttachable(s, policy) {
			is, known := a.plugin.config.Attachments.IsAttached(s.driver, s.handle)
			attached[spec] = is || !known
		}
	}
	return attached, nil
}

// Detach ends the interest in the volume. It is idempotent.
func (a *attacher) Detach(ctx context.Context, req volume.DetachRequest) error {
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	if err := a.checkNode(req.Node); err != nil {
		return err
	}
	a.plugin.ReleaseAttached(req.VolumeName)
	return nil
}
