package attach

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// createAttachment creates the VolumeAttachment of a CSI volume on a node. An exclusive volume is held for
// the node before.
func (c *Controller) createAttachment(ctx context.Context, v *volumeView, n *nodeView) error {
	pv := v.pvs[n.name]
	unlock, err := c.reserveRoom(ctx, v, n.name)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	// A holder covers the begin of a call for a short time: the wait for room comes before.
	if v.isExclusive {
		isFree, err := c.confirmFree(ctx, v, n)
		if err != nil || !isFree {
			return err
		}
		if _, err := c.hold(ctx, v, pv, []types.NodeName{n.name}, nil); err != nil {
			return err
		}
	}
	driver, handle, _ := splitCSI(v.id)
	calling, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	va := newAttachment(driver, handle, n.name, pv)
	c.timers.begin(v.id, n.name)
	_, err = c.attachments.Create(calling, va)
	if err != nil && isOpen(err) && v.isExclusive {
		c.lost.set(v.id, n.name, time.Now().Add(callTimeout+callMargin))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		c.timers.forget(v.id, n.name)
		return fmt.Errorf("create a VolumeAttachment for node %q: %w", n.name, err)
	}
	return nil
}

// newAttachment returns the VolumeAttachment of a volume on a node.
func newAttachment(driver, handle string, node types.NodeName, pv *v1.PersistentVolume) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachmentName(driver, handle, node)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: string(node),
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
		},
	}
}

// confirmFree reads the VolumeAttachments of the nodes for which other runs hold the volume from the API
// server: the cache may be late. It returns false if there is one.
func (c *Controller) confirmFree(ctx context.Context, v *volumeView, n *nodeView) (isFree bool, err error) {
	driver, handle, _ := splitCSI(v.id)
	for _, pv := range v.sources {
		h := holderOf(pv)
		if h.Run == c.run {
			continue
		}
		for _, name := range h.without([]types.NodeName{n.name}).Nodes {
			va, err := c.attachments.Live(ctx, api.Key{Name: attachmentName(driver, handle, name)})
			if err != nil {
				return false, fmt.Errorf("read the VolumeAttachment of node %q: %w", name, err)
			}
			if va != nil {
				return false, nil
			}
		}
	}
	return true, nil
}

// deleteAttachment deletes a VolumeAttachment in its version. The driver detaches, and then the object ends.
// id is the volume, "" for an unknown one.
func (c *Controller) deleteAttachment(ctx context.Context, va *storagev1.VolumeAttachment, id v1.UniqueVolumeName) error {
	uid, version := va.UID, va.ResourceVersion
	node := types.NodeName(va.Spec.NodeName)
	if id != "" {
		c.timers.begin(id, node)
	}
	err := c.attachments.Delete(ctx, va, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	if err != nil {
		c.timers.forget(id, node)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete VolumeAttachment %q: %w", va.Name, err)
	}
	return nil
}

// attachLimit returns the number of volumes of a driver that a node can have. ok is false without a limit.
func (c *Controller) attachLimit(driver string, node *v1.Node) (limit int64, ok bool) {
	if node == nil {
		return 0, false
	}
	if most, isSet := node.Status.Allocatable[limitName(driver)]; isSet {
		limit, ok = most.Value(), true
	}
	object, exists := c.csiNodes.Get(api.Key{Name: node.Name})
	if !exists {
		return limit, ok
	}
	i := slices.IndexFunc(object.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
	if i < 0 || object.Spec.Drivers[i].Allocatable == nil || object.Spec.Drivers[i].Allocatable.Count == nil {
		return limit, ok
	}
	if count := int64(*object.Spec.Drivers[i].Allocatable.Count); !ok || count < limit {
		limit = count
	}
	return limit, true
}

// limitName returns the resource of a node that limits the volumes of a driver.
func limitName(driver string) v1.ResourceName {
	return v1.ResourceName(v1.ResourceAttachableVolumesPrefix + "csi-" + driver)
}

// isFull reports whether a node has no room for one more CSI volume. A plugin reports this by its error. pause is that
// before the next look at VolumeAttachments on the node that the cache may never have.
func (c *Controller) isFull(ctx context.Context, v *volumeView, node types.NodeName) (isFull bool, pause time.Duration) {
	driver, _, isCSI := splitCSI(v.id)
	if !isCSI {
		return false, 0
	}
	limit, ok := c.attachLimit(driver, v.objects[node])
	if !ok {
		return false, 0
	}
	all, err := c.attachments.ByIndex(ctx, attachmentsByNode, string(node))
	if err != nil {
		return false, 0 // the attach reads the objects again
	}
	count := int64(0)
	for _, va := range all {
		if id, _ := c.idOfAttachment(va); va.Spec.Attacher == driver && id != v.id && !isNamedFor(va, v.id) {
			count++
			pause = max(pause, unseen.PauseFor(c.attachments, va))
		}
	}
	return count >= limit, pause
}

// reserveRoom locks a node with a limit, so that of two volumes one receives the last place. unlock is nil
// if there is no room.
func (c *Controller) reserveRoom(ctx context.Context, v *volumeView, node types.NodeName) (unlock func(), err error) {
	driver, _, _ := splitCSI(v.id)
	if _, hasLimit := c.attachLimit(driver, v.objects[node]); !hasLimit {
		return func() {}, nil
	}
	if unlock, err = c.rooms.Lock(ctx, string(node)); err != nil {
		return nil, err
	}
	if isFull, _ := c.isFull(ctx, v, node); isFull {
		unlock()
		return nil, nil
	}
	return unlock, nil
}

// confirmDead reads a node from the API server, and reports whether it still counts as dead.
func (c *Controller) confirmDead(ctx context.Context, name types.NodeName) (bool, error) {
	node, err := c.nodes.Live(ctx, api.Key{Name: string(name)})
	if err != nil {
		return false, fmt.Errorf("read node %q: %w", name, err)
	}
	record := c.records.observe(name, node, time.Now(), false)
	if node != nil && isOutOfService(node) {
		return true, nil
	}
	return !record.since.IsZero() && time.Since(record.since) >= c.config.UnhealthyAfter, nil
}
