package provision

import (
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// announce sends an event.
func (c *Controller) announce(object runtime.Object, kind, reason, message string) {
	c.config.Events(api.Event{Object: object, Type: kind, Reason: reason, Message: telemetry.Text(message)})
}

// reportProvisioned reports that the object of a claim's volume is stored.
func (c *Controller) reportProvisioned(a *claimAttempt) {
	labels := labelsOf(a.claim)
	c.config.Metrics.Add(ProvisionTotal, 1, labels...)
	c.config.Metrics.Observe(ProvisionDuration, time.Since(a.began), labels...)
	message := "provisioned volume " + a.described.Name
	if note := a.described.Annotations[volume.ProvisioningNoteAnnotation]; note != "" {
		message += ": " + note
	}
	c.announce(a.claim, v1.EventTypeNormal, reasonProvisioned, message)
	a.described = nil
}

// reportFailedProvision reports a failure. A claim that another provisioner handles is none.
func (c *Controller) reportFailedProvision(a *claimAttempt, err error, isNews bool) {
	if isIgnored(err) {
		return
	}
	c.config.Metrics.Add(ProvisionFailedTotal, 1, labelsOf(a.claim)...)
	if isNews {
		class, _ := storageclass.Named(a.claim)
		c.announce(a.claim, v1.EventTypeWarning, reasonFailed, fmt.Sprintf("failed to provision a volume with storage class %q: %v", class, err))
	}
	c.config.Logger.Warn("provisioning failed", "claim", api.KeyOf(a.claim), "err", err, "kind", kindOf(err), "failures", a.retry.failures)
}

// reportRefusedAgain reports that the storage of a stored volume, which was provisioned again, is refused. The
// storage stays, as the claim may use it.
func (c *Controller) reportRefusedAgain(a *claimAttempt) {
	if a.refusal != nil {
		c.reportFailedProvision(a, fmt.Errorf("the volume is stored: %w", a.refusal), true)
	}
}

// reportDeleted reports that the storage of a volume is deleted.
func (c *Controller) reportDeleted(pv *v1.PersistentVolume, began time.Time) {
	class := manager.Label{Name: "class", Value: pv.Spec.StorageClassName}
	c.config.Metrics.Add(DeleteTotal, 1, class)
	c.config.Metrics.Observe(DeleteDuration, time.Since(began), class)
}

// reportFailedDelete reports that the storage of a volume was not deleted. Storage in use is no
// failure.
func (c *Controller) reportFailedDelete(pv *v1.PersistentVolume, err error, isNews bool) {
	var inUse *inUseError
	if errors.As(err, &inUse) {
		if isNews {
			c.announce(pv, v1.EventTypeNormal, reasonInUse, inUse.Error())
		}
		return
	}
	c.config.Metrics.Add(DeleteFailedTotal, 1, manager.Label{Name: "class", Value: pv.Spec.StorageClassName})
	if isNews {
		c.announce(pv, v1.EventTypeWarning, reasonFailedDelete, err.Error())
	}
	c.config.Logger.Warn("deletion of storage failed", "volume", pv.Name, "err", err, "kind", volume.KindOf(err))
}

// labelsOf returns the labels of metrics of a claim.
func labelsOf(claim *v1.PersistentVolumeClaim) []manager.Label {
	class, _ := storageclass.Named(claim)
	source := ""
	if claim.Spec.DataSource != nil {
		source = claim.Spec.DataSource.Kind
	}
	return []manager.Label{{Name: "class", Value: class}, {Name: "source", Value: source}}
}
