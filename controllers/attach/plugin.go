package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// attachByPlugin attaches a volume by its plugin. A persistent volume is held for the node before (see
// holdForPlugin), so that a later run finds the attachment.
func (c *Controller) attachByPlugin(ctx context.Context, v *volumeView, n *nodeView) error {
	plugin, ok := c.attachPlugin(v.id)
	if !ok {
		return fmt.Errorf("plugin: %w", volume.ErrNoPluginMatched)
	}
	if v.attachErr != nil {
		c.reportAttachFailure(v, n, v.attachErr)
		return nil
	}
	attacher, err := plugin.NewAttacher()
	if err != nil {
		c.reportAttachFailure(v, n, err)
		return nil
	}
	before := pluggedState{state: n.state, devicePath: n.devicePath}
	c.plugged.set(v.id, n.name, pluggedState{state: uncertain})
	began := time.Now()
	calling, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	path, err := attacher.Attach(calling, copySpec(v.specs[n.name]), n.name)
	err = withKind(calling, err)
	c.reportDuration(v, attachOperation, time.Since(began), err)
	if err == nil {
		c.plugged.set(v.id, n.name, pluggedState{state: attached, devicePath: path})
		c.failures.forget(v.id, n.name)
		return nil
	}
	c.recordAttachFailure(v, n, before, err)
	c.reportAttachFailure(v, n, err)
	return nil
}

// recordAttachFailure records the state of a volume after a failed attach.
func (c *Controller) recordAttachFailure(v *volumeView, n *nodeView, before pluggedState, err error) {
	var dangling *volume.DanglingAttachError
	switch {
	case volume.KindOf(err) == volume.Uncertain:
		return
	case errors.As(err, &dangling) && dangling.CurrentNode != n.name && dangling.CurrentNode != "":
		c.plugged.set(v.id, n.name, pluggedState{state: detached, at: time.Now()})
		if c.plugged.of(v.id)[dangling.CurrentNode].state != attached {
			c.plugged.set(v.id, dangling.CurrentNode, pluggedState{state: uncertain, devicePath: dangling.DevicePath})
		}
	case volume.KindOf(err) == volume.Final:
		c.plugged.set(v.id, n.name, pluggedState{state: detached, at: time.Now()})
	default:
		c.plugged.set(v.id, n.name, before) // no news of an earlier call
	}
}

// detachByPlugin detaches a volume by its plugin.
func (c *Controller) detachByPlugin(ctx context.Context, v *volumeView, n *nodeView) error {
	plugin, ok := c.attachPlugin(v.id)
	if !ok {
		return fmt.Errorf("plugin: %w", volume.ErrNoPluginMatched)
	}
	detacher, err := plugin.NewDetacher()
	if err != nil {
		c.reportDetachFailure(v, n, err)
		return nil
	}
	_, name, err := util.SplitUniqueName(v.id)
	if err != nil {
		return err
	}
	before := pluggedState{state: n.state, devicePath: n.devicePath}
	c.plugged.set(v.id, n.name, pluggedState{state: uncertain})
	began := time.Now()
	calling, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	err = withKind(calling, detacher.Detach(calling, volume.DetachRequest{VolumeName: name, Node: n.name, Spec: c.specOf(v)}))
	c.reportDuration(v, detachOperation, time.Since(began), err)
	switch {
	case err == nil:
		c.failures.forget(v.id, n.name)
		if n.isHeld {
			c.plugged.set(v.id, n.name, pluggedState{state: detached, mark: v.markOf(n.name), at: time.Now()})
		} else {
			c.plugged.forget(v.id, n.name)
		}
		return nil
	case volume.KindOf(err) != volume.Uncertain:
		c.plugged.set(v.id, n.name, before)
		c.putBack(v, n, before.devicePath)
	}
	c.reportDetachFailure(v, n, err)
	return nil
}

// specOf returns a copy of the specification of a volume, nil if it is not known.
func (c *Controller) specOf(v *volumeView) *volume.Spec {
	if len(v.sources) == 0 {
		return nil
	}
	return volume.NewSpecFromPersistentVolume(v.sources[0].DeepCopy(), false)
}

// copySpec returns a specification with a copy of the shared object.
func copySpec(spec *volume.Spec) *volume.Spec {
	if spec.PersistentVolume != nil {
		return volume.NewSpecFromPersistentVolume(spec.PersistentVolume.DeepCopy(), spec.ReadOnly)
	}
	var vol v1.Volume
	spec.Volume.DeepCopyInto(&vol)
	return volume.NewSpecFromVolume(&vol)
}

// withKind returns an error of a call with its kind: a call that has lasted too long may have an effect.
func withKind(calling context.Context, err error) error {
	if err != nil && calling.Err() != nil && volume.KindOf(err) == volume.Transient {
		return volume.AsUncertain(err)
	}
	return err
}
