package attach

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// orphanPause is the pause before the next look at a VolumeAttachment whose persistent volume only the API
// server has: the cache is late.
const orphanPause = time.Minute

// keyOf returns the key of the volume of a VolumeAttachment, or that of an orphan. One that was made for an
// earlier persistent volume of the same name has the key of the earlier volume while a volume or the node
// shows its unique name, and then that of the present one. A volume that loses the VolumeAttachment is queued.
func (c *Controller) keyOf(va *storagev1.VolumeAttachment) key {
	k, last := c.classify(va)
	if last != "" && last != k.volume {
		c.queue(false, last)
	}
	return k
}

// classify returns the key of a VolumeAttachment, and the volume that it was an orphan of before.
func (c *Controller) classify(va *storagev1.VolumeAttachment) (k key, last v1.UniqueVolumeName) {
	present, ok := c.idOfAttachment(va)
	if ok && !isEarlier(va, present) {
		return key{volume: present}, c.orphans.forget(va.Name)
	}
	node, _ := c.nodes.Cache().Get(api.Key{Name: va.Spec.NodeName})
	id := c.guess(va, node)
	if ok && id == "" {
		return key{volume: present}, c.orphans.forget(va.Name)
	}
	last = c.orphans.set(va.Name, id)
	if id != "" {
		return key{volume: id}, last
	}
	return key{orphan: va.Name}, last
}

// guess returns the unique name of the volume of a VolumeAttachment whose persistent volume is missing: that
// of a volume of the driver, or of one in the lists of the node, with the same name of its VolumeAttachment.
// "": none. Orphans are rare, as a finalizer protects the persistent volume: a search is acceptable.
func (c *Controller) guess(va *storagev1.VolumeAttachment, node *v1.Node) v1.UniqueVolumeName {
	volumes, _ := c.volumes.Cache().ByIndex(volumesByDriver, va.Spec.Attacher)
	for _, pv := range volumes {
		if id, ok := c.idOf(pv); ok && isNamedFor(va, id) {
			return id
		}
	}
	if node == nil {
		return ""
	}
	names := slices.Concat(reportedBy(node), node.Status.VolumesInUse)
	if i := slices.IndexFunc(names, func(id v1.UniqueVolumeName) bool { return isNamedFor(va, id) }); i >= 0 {
		return names[i]
	}
	return ""
}

// handleOrphan deletes a VolumeAttachment whose persistent volume does not exist and that its node does not
// use.
func (c *Controller) handleOrphan(ctx context.Context, name string) (workers.Result, error) {
	va, err := c.attachments.Get(ctx, api.Key{Name: name})
	switch {
	case err != nil:
		return workers.Result{}, err
	case va == nil:
		c.orphans.forget(name)
		c.noteMissing(key{orphan: name})
		return workers.Result{}, nil
	case va.DeletionTimestamp != nil, !strings.HasPrefix(name, attachmentPrefix), volumeNameOf(va) == "":
		return workers.Result{}, nil
	}
	if k := c.keyOf(va); k.orphan == "" {
		c.noteMissing(key{orphan: name})
		c.volumePool.Add(k)
		return workers.Result{}, nil
	}
	pv, err := c.volumes.Live(ctx, api.Key{Name: volumeNameOf(va)})
	switch {
	case err != nil:
		return workers.Result{}, fmt.Errorf("read volume %q: %w", volumeNameOf(va), err)
	case pv != nil && pv.Spec.CSI != nil && pv.Spec.CSI.Driver == va.Spec.Attacher:
		return workers.Result{After: orphanPause}, nil
	case pv != nil:
		return workers.Result{After: unseen.PauseFor(c.volumes, pv)}, nil // another program attaches the volume by this driver
	}
	return c.discard(ctx, va)
}

// discard deletes an orphan once its node does not use it, or counts as dead.
func (c *Controller) discard(ctx context.Context, va *storagev1.VolumeAttachment) (workers.Result, error) {
	name, now := types.NodeName(va.Spec.NodeName), time.Now()
	node, err := c.nodes.Live(ctx, api.Key{Name: string(name)})
	if err != nil {
		return workers.Result{}, fmt.Errorf("read node %q: %w", name, err)
	}
	record := c.records.observe(name, node, now, false)
	c.noteMissing(key{orphan: va.Name}, name)
	switch {
	case node == nil || record.reportsFrom(node).IsZero() && !isOutOfService(node):
		if pause := record.since.Add(c.config.UnhealthyAfter).Sub(now); pause > 0 {
			return workers.Result{After: pause}, nil
		}
	case isOutOfService(node):
	case !isManaged(node):
		return workers.Result{After: unseen.PauseForState(c.nodes, node)}, nil
	case c.guess(va, node) != "":
		return workers.Result{After: orphanPause}, nil // the cache is late
	default:
		if pause := record.reportsFrom(node).Sub(now); pause > 0 {
			return workers.Result{After: pause}, nil
		}
	}
	return workers.Result{}, c.deleteAttachment(ctx, va, "")
}
