package attachment

import (
	"context"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// handleVolume removes the finalizer of a volume that is being deleted and has no VolumeAttachment left. A
// VolumeAttachment that neither the cache nor the index has yet receives no Attach: its volume is being deleted.
func (c *Controller) handleVolume(ctx context.Context, key api.Key) (workers.Result, error) {
	pv, err := c.volumes.Get(ctx, key)
	if err != nil {
		return workers.Result{}, fmt.Errorf("read PersistentVolume %q: %w", key.Name, err)
	}
	if !c.rules.mayRelease(pv) {
		return workers.Result{}, nil
	}
	left, pause := 0, time.Duration(0)
	for of, uid := range c.index.ofVolume(key.Name) {
		attachment, err := c.attachments.Get(ctx, of)
		if err != nil {
			return workers.Result{}, fmt.Errorf("read VolumeAttachment %q: %w", of.Name, err)
		}
		if attachment == nil {
			c.index.remove(of, uid) // the cache may never report its end
			continue
		}
		if c.own(attachment) != nil && volumeName(attachment) == key.Name {
			left++
			pause = max(pause, unseen.PauseFor(c.attachments, attachment))
		}
	}
	if left > 0 {
		return workers.Result{After: pause}, nil // or after the end of the VolumeAttachment
	}
	err = c.patchVolume(ctx, pv, objectpatch.Of(pv).WithoutFinalizer(c.rules.finalizer))
	if apierrors.IsNotFound(err) {
		return workers.Result{}, nil
	}
	return workers.Result{}, err
}
