package modify

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

func (c *Controller) reportFailure(key api.Key, claim *v1.PersistentVolumeClaim, class string, err error) {
	c.announce(key, claim, v1.EventTypeWarning, reasonFailed, fmt.Sprintf("failed to modify the volume by class %s: %v", class, err))
	c.config.Logger.Warn("modification failed", "claim", key, "class", class, "err", err, "kind", volume.KindOf(err))
}

// reportDuration measures a call of the Modifier.
func (c *Controller) reportDuration(name string, took time.Duration, err error) {
	telemetry.Duration(c.config.Metrics, operation, name, took, err == nil)
}
