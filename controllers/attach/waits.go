package attach

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// silentAfter is the time for which a driver may attach or detach a volume before the pods that wait receive an
// event, as in kube-controller-manager.
const silentAfter = 2 * time.Minute

// reportWaits reports to pods what their CSI volumes wait for: a driver that does not answer, a detach that has to
// end before the next attach, or another program. It returns the time of the next report; zero: none.
func (c *Controller) reportWaits(v *volumeView) (next time.Time) {
	for name, n := range v.byName {
		if !v.isCSI || !v.isWanted(n) || !n.exists || !n.isManaged {
			continue
		}
		if n.state == foreign {
			c.announceWait(v, n, "a VolumeAttachment of another program names the volume and the node")
			continue
		}
		va := v.attachments[name]
		if va == nil {
			continue
		}
		since := va.CreationTimestamp.Time
		if n.state == detaching {
			since = va.DeletionTimestamp.Time
		}
		switch silent := since.Add(silentAfter); {
		case n.state == detaching && va.Status.DetachError != nil:
			c.announceWait(v, n, "the driver has to detach it first, which fails: "+va.Status.DetachError.Message)
		case n.state != detaching && (n.state != attaching || va.Status.AttachError != nil):
		case v.now.Before(silent):
			if next.IsZero() || silent.Before(next) {
				next = silent
			}
		default:
			c.announceWait(v, n, fmt.Sprintf("driver %q has not answered for %v", va.Spec.Attacher, silentAfter))
		}
	}
	return next
}

func (c *Controller) announceWait(v *volumeView, n *nodeView, reason string) {
	c.announceToPods(v, n, v1.EventTypeWarning, reasonAttachFailed,
		fmt.Sprintf("AttachVolume.Attach failed for volume %q: %s", v.nameOf(n), reason))
}
