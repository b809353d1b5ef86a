package attachment

import (
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// announce sends a warning about a VolumeAttachment, unless it is the last one.
func (c *Controller) announce(key api.Key, attachment *storagev1.VolumeAttachment, reason, message string) {
	isNews := false
	c.attempts.change(key, attachment.UID, func(last *attempt) {
		isNews = last.announced != reason+message
		last.announced = reason + message
	})
	if isNews {
		c.config.Events(api.Event{Object: attachment, Type: v1.EventTypeWarning, Reason: reason, Message: telemetry.Text(message)})
	}
}

func (c *Controller) reportFailure(key api.Key, attachment *storagev1.VolumeAttachment, err error) {
	reason := reasonAttachFailed
	if attachment.DeletionTimestamp != nil {
		reason = reasonDetachFailed
	}
	c.announce(key, attachment, reason, err.Error())
	c.config.Logger.Warn("VolumeAttachment failed", "name", key.Name, "reason", reason, "err", err, "kind", volume.KindOf(err))
}

func (c *Controller) reportLost(key api.Key, attachment *storagev1.VolumeAttachment) {
	const message = "the storage does not have the volume attached, which is attached again"
	c.announce(key, attachment, reasonLost, message)
	c.config.Logger.Warn(message, "name", key.Name, "node", attachment.Spec.NodeName)
}

// reportUnexpected reports a volume that is attached without a VolumeAttachment.
func (c *Controller) reportUnexpected(pv *v1.PersistentVolume, nodeID string) {
	const message = "the storage has the volume attached to a node of this cluster without a VolumeAttachment: "
	if pv.Name != "" { // of an inline volume spec
		c.config.Events(api.Event{Object: pv, Type: v1.EventTypeWarning, Reason: reasonUnexpected, Message: telemetry.Text(message + nodeID)})
	}
	c.config.Logger.Warn("a volume is attached without a VolumeAttachment", "volume", pv.Name, "node ID", telemetry.Text(nodeID))
}

// reportDuration measures a call of the Attacher.
func (c *Controller) reportDuration(operation string, took time.Duration, err error) {
	telemetry.Duration(c.config.Metrics, operation, c.rules.driver, took, err == nil)
}
