package expand

import (
	"fmt"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// announce sends an event, unless it is the last one of the claim.
func (c *Controller) announce(key api.Key, claim *v1.PersistentVolumeClaim, kind, reason, message string) {
	last := c.attempts.get(key, claim.UID)
	if last.announced == reason+message {
		return
	}
	last.announced = reason + message
	c.attempts.set(key, last)
	c.config.Events(api.Event{Object: claim, Type: kind, Reason: reason, Message: text(message)})
}

// text returns a text with parts of other programs as one short line of valid UTF-8.
func text(message string) string {
	return brief.Text(oneline.Of(strings.ToValidUTF8(message, "\uFFFD")))
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
	status := "success"
	if err != nil {
		status = "fail-unknown"
	}
	c.config.Metrics.Observe(manager.OperationDuration, took, manager.Label{Name: "volume_plugin", Value: name},
		manager.Label{Name: "operation_name", Value: operation}, manager.Label{Name: "status", Value: status},
		manager.Label{Name: "migrated", Value: "false"})
}
