package attachment

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// view returns the newest known state of a VolumeAttachment, its volume and its node.
func (c *Controller) view(ctx context.Context, key api.Key) (v view, err error) {
	v.rules = c.rules
	if v.attachment, err = c.attachments.Get(ctx, key); err != nil {
		return v, fmt.Errorf("read VolumeAttachment %q: %w", key.Name, err)
	}
	if c.own(v.attachment) == nil {
		return v, nil
	}
	c.index.set(v.attachment)
	if c.rules.noPublish || v.attachment.DeletionTimestamp != nil && !hasFinalizer(v.attachment, c.rules.finalizer) {
		return v, nil // there is no call
	}
	if v.volume, err = c.volumeOf(ctx, v.attachment); err != nil {
		return v, err
	}
	if node, ok := c.nodes.Get(api.Key{Name: v.attachment.Spec.NodeName}); ok {
		v.nodeID = nodeIDOf(node, c.rules.driver)
	}
	v.isLost = c.attempts.get(key, v.attachment.UID).isLost
	if v.attachment.DeletionTimestamp != nil || v.hasMoved() {
		v.isShared, err = c.isShared(ctx, v)
	}
	return v, err
}

// volumeOf returns the volume of a VolumeAttachment, or nil. The cache of volumes may be later than that of
// VolumeAttachments: a volume that it does not have is read from the API server.
func (c *Controller) volumeOf(ctx context.Context, attachment *storagev1.VolumeAttachment) (*v1.PersistentVolume, error) {
	name := volumeName(attachment)
	if name == "" {
		return inlineVolume(attachment), nil
	}
	key := api.Key{Name: name}
	pv, err := c.volumes.Get(ctx, key)
	if pv == nil && err == nil {
		pv, err = c.volumes.Live(ctx, key)
	}
	if err != nil {
		return nil, fmt.Errorf("read PersistentVolume %q: %w", name, err)
	}
	return pv, nil
}

// inlineVolume returns a nameless volume with the inline volume spec of a VolumeAttachment, or nil.
func inlineVolume(attachment *storagev1.VolumeAttachment) *v1.PersistentVolume {
	spec := attachment.Spec.Source.InlineVolumeSpec
	if spec == nil {
		return nil
	}
	return &v1.PersistentVolume{Spec: *spec}
}

// isShared reports whether another VolumeAttachment has the recorded target of a VolumeAttachment, and a
// finalizer, so that its own deletion detaches the volume.
func (c *Controller) isShared(ctx context.Context, v view) (bool, error) {
	for _, key := range c.index.near(locationOf(v.attachment)) {
		other, err := c.attachments.Get(ctx, key)
		if err != nil {
			return false, fmt.Errorf("read VolumeAttachment %q: %w", key.Name, err)
		}
		if other == nil || other.UID == v.attachment.UID || other.DeletionTimestamp != nil || !hasFinalizer(other, c.rules.finalizer) {
			continue
		}
		pv, err := c.volumes.Get(ctx, api.Key{Name: volumeName(other)})
		if err != nil {
			return false, fmt.Errorf("read PersistentVolume %q: %w", volumeName(other), err)
		}
		if other.Annotations[NodeIDAnnotation] == v.attachedNodeID() && identity(other, pv) == identity(v.attachment, v.volume) {
			return true, nil
		}
	}
	return false, nil
}

// identity returns a text that two VolumeAttachments have in common only if they attach the same volume: the
// recorded handle, or that of the volume, or the name of a volume without a handle.
func identity(attachment *storagev1.VolumeAttachment, pv *v1.PersistentVolume) string {
	handle := recordedTarget(attachment).handle
	if handle == "" && volumeName(attachment) == "" {
		pv = inlineVolume(attachment)
	}
	if handle == "" {
		handle = handleOf(pv)
	}
	if handle != "" {
		return "handle " + handle
	}
	if name := volumeName(attachment); name != "" {
		return "volume " + name
	}
	return "attachment " + attachment.Name
}

// pair returns the name of the lock for a call about a volume and a node.
func (v view) pair() string { return v.attachedNodeID() + " " + identity(v.attachment, v.volume) }
