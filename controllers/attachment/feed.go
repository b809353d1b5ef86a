package attachment

import (
	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// addAttachment queues a VolumeAttachment that is new, is being deleted, or has lost a part that the controller has
// written. The writes of the controller are no reason: a failure would have no pause.
func (c *Controller) addAttachment(change api.Change[*storagev1.VolumeAttachment]) {
	key := change.Key()
	old, attachment := c.own(change.Old), c.own(change.New)
	if attachment != nil {
		c.index.set(attachment)
	}
	if old != nil && (attachment == nil || attachment.UID != old.UID) {
		c.index.remove(key, old.UID)
		c.attempts.forget(key, old.UID)
		c.addVolumeOf(old)
	}
	switch {
	case attachment == nil:
	case change.Replay:
		if c.rules.mayAct(attachment) {
			c.attachmentPool.AddReplay(key)
		}
	case old == nil || old.UID != attachment.UID || c.rules.isNews(old, attachment) || c.isForeignError(old, attachment):
		c.attachmentPool.Add(key)
	}
}

// own returns a VolumeAttachment of the driver, or nil.
func (c *Controller) own(attachment *storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
	if attachment == nil || attachment.Spec.Attacher != c.rules.driver {
		return nil
	}
	return attachment
}

// addVolumeOf queues the volume of a VolumeAttachment that has ended.
func (c *Controller) addVolumeOf(attachment *storagev1.VolumeAttachment) {
	if name := volumeName(attachment); name != "" {
		c.volumePool.Add(api.Key{Name: name})
	}
}

// mayAct reports whether a VolumeAttachment may have a step for its own state.
func (r rules) mayAct(attachment *storagev1.VolumeAttachment) bool {
	if attachment.DeletionTimestamp != nil {
		return hasFinalizer(attachment, r.finalizer)
	}
	return !attachment.Status.Attached || attachment.Status.AttachError != nil ||
		!r.noPublish && !hasFinalizer(attachment, r.finalizer)
}

// isNews reports whether the change of a VolumeAttachment may be the cause of a step.
func (r rules) isNews(old, attachment *storagev1.VolumeAttachment) bool {
	return old.DeletionTimestamp == nil && attachment.DeletionTimestamp != nil ||
		old.Status.Attached && !attachment.Status.Attached ||
		attachment.Status.Attached && hasFinalizer(old, r.finalizer) && !hasFinalizer(attachment, r.finalizer)
}

// isForeignError reports whether another program has written an error to an attached VolumeAttachment. The
// controller writes one for a lost volume.
func (c *Controller) isForeignError(old, attachment *storagev1.VolumeAttachment) bool {
	return attachment.Status.Attached && attachment.Status.AttachError != nil && old.Status.AttachError == nil &&
		!c.attempts.get(api.KeyOf(attachment), attachment.UID).isLost
}

// addVolume queues a volume that is being deleted, and the VolumeAttachments of a volume that is new or has
// lost its finalizer.
func (c *Controller) addVolume(change api.Change[*v1.PersistentVolume]) {
	key, old, pv := change.Key(), change.Old, change.New
	switch isGuarded := pv != nil && hasFinalizer(pv, c.rules.finalizer); {
	case isGuarded && pv.DeletionTimestamp != nil:
		if change.Replay {
			c.volumePool.AddReplay(key)
		} else {
			c.volumePool.Add(key)
		}
	case change.Replay:
		if !isGuarded && !c.rules.noPublish {
			c.addAttachmentsOf(key.Name, c.attachmentPool.AddReplay)
		}
	case old == nil || pv == nil || old.UID != pv.UID || hasFinalizer(old, c.rules.finalizer) && !isGuarded:
		c.addAttachmentsOf(key.Name, c.attachmentPool.Add)
	}
}

func (c *Controller) addAttachmentsOf(volume string, add func(api.Key)) {
	for key := range c.index.ofVolume(volume) {
		add(key)
	}
}

// addNode queues the VolumeAttachments of a node that wait for its ID, or for another one.
func (c *Controller) addNode(change api.Change[*storagev1.CSINode]) {
	if change.Replay || nodeIDOf(change.Old, c.rules.driver) == nodeIDOf(change.New, c.rules.driver) {
		return
	}
	for _, key := range c.index.ofNode(change.Key().Name) {
		attachment, ok := c.attachments.Cache().Get(key)
		if ok && (!attachment.Status.Attached || attachment.DeletionTimestamp != nil) {
			c.attachmentPool.Add(key)
		}
	}
}
