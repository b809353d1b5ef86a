package expand

import (
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// announce sends an event, unless it is the last one of the claim.
func (c *Controller) announce(key api.Key, claim *v1.PersistentVolumeClaim, kind, reason, message string) {
	last := c.attempts.Get(key, claim.UID)
	if last.announced == reason+message {
		return
	}
	last.announced = reason + message
	c.attempts.Set(key, claim.UID, last)
	c.config.Events(api.Event{Object: claim, Type: kind, Reason: reason, Message: telemetry.Text(message)})
}

func (c *Controller) reportExternal(key api.Key, claim *v1.PersistentVolumeClaim) {
	if c.config.ReportExternal {
		c.announce(key, claim, v1.EventTypeNormal, reasonExternal, "waiting for an external controller to expand this claim")
	}
}

func (c *Controller) reportFailure(key api.Key, claim *v1.PersistentVolumeClaim, name string, err error) {
	c.announce(key, claim, v1.EventTypeWarning, reasonFailed, fmt.Sprintf("%s failed to resize the volume: %v", name, err))
	c.config.Logger.Warn("expansion failed", "claim", key, "err", err, "kind", volume.KindOf(err))
}

func (c *Controller) reportSuccess(key api.Key, claim *v1.PersistentVolumeClaim, result volume.ExpandResult) {
	if result.NodeExpansionRequired {
		c.announce(key, claim, v1.EventTypeNormal, reasonNode, "the file system of the volume has to grow on the node")
		return
	}
	c.announce(key, claim, v1.EventTypeNormal, reasonExpanded, "resized volume "+claim.Spec.VolumeName)
}

// reportDuration measures a call of the Expander.
func (c *Controller) reportDuration(name string, took time.Duration, err error) {
	telemetry.Duration(c.config.Metrics, operation, name, took, err == nil)
}
