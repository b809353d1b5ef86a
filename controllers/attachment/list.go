package attachment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// listPeriods is the number of periods that a list has: a storage with many volumes lists them in many pages.
const listPeriods = 10

// runList compares the storage with the VolumeAttachments once in each period, until ctx ends.
func (c *Controller) runList(ctx context.Context, lister Lister) error {
	ticker := time.NewTicker(c.config.ListEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := c.compare(ctx, lister); err != nil && ctx.Err() == nil {
			c.config.Logger.Warn("list of attached volumes failed, repeated later", "driver", c.rules.driver, "err", err)
		}
	}
}

// compare queues the VolumeAttachments whose volume the storage does not have attached. A VolumeAttachment that was not
// attached before and after the list is left out: a list can be older than an Attach or a Detach. compare reports volumes
// that are attached without a VolumeAttachment, and does not detach them: the VolumeAttachment may be in
// another cluster with the same storage, or in a backup that is restored later.
func (c *Controller) compare(ctx context.Context, lister Lister) error {
	before, err := c.targets(ctx)
	if err != nil {
		return err
	}
	var list []Attached
	err = c.callWithin(ctx, listPeriods*c.config.ListEvery, operationList, func(ctx context.Context) (err error) {
		list, err = lister.ListAttached(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("list attached volumes: %w", err)
	}
	after, err := c.targets(ctx)
	if err != nil {
		return err
	}
	present := presentTargets(list)
	for at, attached := range after {
		if old := before[at]; old != nil && old.UID == attached.UID && isAttached(old) {
			c.markLost(attached, !present[at])
		}
	}
	c.compareUnexpected(present, before, after)
	return nil
}

// presentTargets returns the targets of a list.
func presentTargets(list []Attached) map[target]bool {
	present := map[target]bool{}
	for _, attached := range list {
		for _, id := range attached.NodeIDs {
			present[target{shorten(attached.VolumeHandle), id}] = true
		}
	}
	return present
}

// targets returns the VolumeAttachments of the driver by their targets.
func (c *Controller) targets(ctx context.Context) (map[target]*storagev1.VolumeAttachment, error) {
	all, err := c.attachments.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("read VolumeAttachments: %w", err)
	}
	found := map[target]*storagev1.VolumeAttachment{}
	for _, attachment := range all {
		if c.own(attachment) == nil {
			continue
		}
		at := recordedTarget(attachment)
		if at.handle == "" {
			pv, _ := c.volumes.Cache().Get(api.Key{Name: volumeName(attachment)})
			at.handle = handleOf(pv)
		}
		if at.nodeID == "" {
			node, _ := c.nodes.Get(api.Key{Name: attachment.Spec.NodeName})
			at.nodeID = nodeIDOf(node, c.rules.driver)
		}
		if other := found[at]; at.handle != "" && at.nodeID != "" && (other == nil || !isAttached(other)) {
			found[at] = attachment
		}
	}
	return found, nil
}

// isAttached reports whether a VolumeAttachment promises an attached volume.
func isAttached(attachment *storagev1.VolumeAttachment) bool {
	return attachment.Status.Attached && attachment.DeletionTimestamp == nil
}

// markLost records whether the storage has lost the volume of an attached VolumeAttachment.
func (c *Controller) markLost(attachment *storagev1.VolumeAttachment, isLost bool) {
	if !isAttached(attachment) {
		return
	}
	key := api.KeyOf(attachment)
	if !c.attempts.setLost(key, attachment.UID, isLost) {
		return
	}
	if isLost {
		c.reportLost(key, attachment)
	}
	c.attachmentPool.Add(key)
}

// unexpected are the targets that lists have had without a VolumeAttachment, by the number of lists in a row.
// The zero value is empty.
type unexpected struct {
	mu    sync.Mutex
	lists map[target]int
}

// next counts the targets of a list, and returns those of the second list in a row.
func (u *unexpected) next(found []target) (second []target) {
	u.mu.Lock()
	defer u.mu.Unlock()
	lists := make(map[target]int, len(found))
	for _, at := range found {
		if lists[at] = u.lists[at] + 1; lists[at] == 2 {
			second = append(second, at)
		}
	}
	u.lists = lists
	return second
}

// compareUnexpected reports volumes of this cluster that are attached to nodes of this cluster without a
// VolumeAttachment, before and after the list. A volume that is being detached can be in one list.
func (c *Controller) compareUnexpected(present map[target]bool, before, after map[target]*storagev1.VolumeAttachment) {
	volumes, nodeIDs := c.ownVolumes(), c.ownNodeIDs()
	var found []target
	for at := range present {
		if before[at] == nil && after[at] == nil && volumes[at.handle] != nil && nodeIDs[at.nodeID] {
			found = append(found, at)
		}
	}
	for _, at := range c.unexpected.next(found) {
		c.reportUnexpected(volumes[at.handle], at.nodeID)
	}
}

// ownVolumes returns the volumes of the driver by their handles.
func (c *Controller) ownVolumes() map[string]*v1.PersistentVolume {
	volumes := map[string]*v1.PersistentVolume{}
	for _, pv := range c.volumes.Cache().List() {
		if pv.Spec.CSI != nil && pv.Spec.CSI.Driver == c.rules.driver {
			volumes[handleOf(pv)] = pv
		}
	}
	return volumes
}

// ownNodeIDs returns the IDs that the driver has for nodes of this cluster.
func (c *Controller) ownNodeIDs() map[string]bool {
	ids := map[string]bool{}
	for _, node := range c.nodes.List() {
		if id := nodeIDOf(node, c.rules.driver); id != "" {
			ids[id] = true
		}
	}
	return ids
}
