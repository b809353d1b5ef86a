package attach

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Indexes of the caches.
const (
	podsByClaim         = "volumekit.io/attach/pods-by-claim"
	podsByInline        = "volumekit.io/attach/pods-by-inline-volume"
	podsByNode          = "volumekit.io/attach/pods-by-node"
	volumesByID         = "volumekit.io/attach/volumes-by-unique-name"
	volumesByHolder     = "volumekit.io/attach/volumes-by-held-node"
	volumesByDriver     = "volumekit.io/attach/volumes-by-driver"
	attachmentsByVolume = "volumekit.io/attach/attachments-by-volume"
	attachmentsByNode   = "volumekit.io/attach/attachments-by-node"
	nodesByReported     = "volumekit.io/attach/nodes-by-attached-volume"
)

// A key is one of the two kinds of work: a volume by its unique name, or a VolumeAttachment, by its name,
// whose volume is not known.
type key struct {
	volume v1.UniqueVolumeName
	orphan string
}

// addIndexes adds the indexes to the caches, unless another controller of the process has added them.
func (c *Controller) addIndexes() error {
	return errors.Join(
		addIndex(c.pods, podsByClaim, claimKeysOf),
		addIndex(c.pods, podsByInline, func(pod *v1.Pod) []string { return texts(c.inlineIDs(pod)) }),
		addIndex(c.pods, podsByNode, func(pod *v1.Pod) []string { return present(pod.Spec.NodeName) }),
		addIndex(c.volumes.Cache(), volumesByID, func(pv *v1.PersistentVolume) []string {
			id, _ := c.idOf(pv)
			return present(string(id))
		}),
		addIndex(c.volumes.Cache(), volumesByHolder, func(pv *v1.PersistentVolume) (names []string) {
			for _, name := range holderOf(pv).Nodes {
				names = append(names, string(name))
			}
			return names
		}),
		addIndex(c.volumes.Cache(), volumesByDriver, func(pv *v1.PersistentVolume) []string {
			if pv.Spec.CSI == nil {
				return nil
			}
			return present(pv.Spec.CSI.Driver)
		}),
		addIndex(c.attachments.Cache(), attachmentsByVolume, func(va *storagev1.VolumeAttachment) []string { return present(volumeNameOf(va)) }),
		addIndex(c.attachments.Cache(), attachmentsByNode, func(va *storagev1.VolumeAttachment) []string { return present(va.Spec.NodeName) }),
		addIndex(c.nodes.Cache(), nodesByReported, func(node *v1.Node) []string { return texts(reportedBy(node)) }),
	)
}

func addIndex[O api.Object](cache *api.Cache[O], name string, of func(O) []string) error {
	if _, err := cache.ByIndex(name, ""); err == nil {
		return nil
	}
	return cache.AddIndex(name, of)
}

// present returns a list of a text that is not empty.
func present(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func texts(ids []v1.UniqueVolumeName) (all []string) {
	for _, id := range ids {
		all = append(all, string(id))
	}
	return all
}

// inlineIDs returns the unique names of the attachable volumes in the spec of a pod with a node.
func (c *Controller) inlineIDs(pod *v1.Pod) (ids []v1.UniqueVolumeName) {
	if c.config.Plugins == nil || pod.Spec.NodeName == "" {
		return nil
	}
	for i := range pod.Spec.Volumes {
		if id, ok := c.inlineID(&pod.Spec.Volumes[i]); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// reportedBy returns the volumes that a node reports as attached.
func reportedBy(node *v1.Node) (ids []v1.UniqueVolumeName) {
	for _, entry := range node.Status.VolumesAttached {
		ids = append(ids, entry.Name)
	}
	return ids
}

// observeCaches records the nodes of the first list, which date from their creation, and the VolumeAttachments, which
// may be orphans on a node: a turn may come before the replay of both.
func (c *Controller) observeCaches() {
	for _, node := range c.nodes.Cache().List() {
		c.records.observe(types.NodeName(node.Name), node, time.Now(), true)
	}
	for _, va := range c.attachments.Cache().List() {
		c.classify(va)
	}
}

// queue queues volumes.
func (c *Controller) queue(isReplay bool, ids ...v1.UniqueVolumeName) {
	for _, id := range ids {
		if isReplay {
			c.volumePool.AddReplay(key{volume: id})
		} else {
			c.volumePool.Add(key{volume: id})
		}
	}
}

// podChanged queues the volumes of a pod that is new, gone, finished, or has received its node.
func (c *Controller) podChanged(change api.Change[*v1.Pod]) {
	pod := change.Object()
	old := change.Old
	if old != nil && (change.New == nil || old.UID != pod.UID) {
		c.announced.forget(old.UID)
	}
	if !change.Replay && old != nil && change.New != nil && old.UID == pod.UID &&
		old.Spec.NodeName == pod.Spec.NodeName && hasFinished(old) == hasFinished(pod) {
		return
	}
	c.queue(change.Replay, c.idsOfPod(pod)...)
	if old != nil && old.UID != pod.UID {
		c.queue(false, c.idsOfPod(old)...)
	}
}

// idsOfPod returns the attachable volumes of a pod with a node.
func (c *Controller) idsOfPod(pod *v1.Pod) []v1.UniqueVolumeName {
	ids := c.inlineIDs(pod)
	if pod.Spec.NodeName == "" {
		return nil
	}
	for i := range pod.Spec.Volumes {
		claim, ok := c.claims.Get(api.Key{Namespace: pod.Namespace, Name: claimName(pod, &pod.Spec.Volumes[i])})
		if ok {
			ids = append(ids, c.idsOfClaim(claim)...)
		}
	}
	return ids
}

// idsOfClaim returns the volume of a claim.
func (c *Controller) idsOfClaim(claim *v1.PersistentVolumeClaim) []v1.UniqueVolumeName {
	pv, ok := c.volumes.Cache().Get(api.Key{Name: claim.Spec.VolumeName})
	if !ok {
		return nil
	}
	id, ok := c.idOf(pv)
	if !ok {
		return nil
	}
	return []v1.UniqueVolumeName{id}
}

// claimChanged queues the volume of a claim that is bound or unbound, or has other owners: an ephemeral claim
// belongs to its pod. A replay is that of its volume.
func (c *Controller) claimChanged(change api.Change[*v1.PersistentVolumeClaim]) {
	old, claim := change.Old, change.New
	if change.Replay || old != nil && claim != nil && old.UID == claim.UID &&
		old.Spec.VolumeName == claim.Spec.VolumeName && old.Status.Phase == claim.Status.Phase &&
		equality.Semantic.DeepEqual(old.OwnerReferences, claim.OwnerReferences) {
		return
	}
	if old != nil {
		c.queue(false, c.idsOfClaim(old)...)
	}
	if claim != nil {
		c.queue(false, c.idsOfClaim(claim)...)
	}
}

// volumeChanged queues a persistent volume whose claim, access modes or storage have changed.
func (c *Controller) volumeChanged(change api.Change[*v1.PersistentVolume]) {
	old, pv := change.Old, change.New
	if !change.Replay && old != nil && pv != nil && old.UID == pv.UID && !hasNews(old, pv) {
		return
	}
	if old != nil && (pv == nil || old.UID != pv.UID) {
		c.announced.forget(old.UID)
	}
	for _, object := range []*v1.PersistentVolume{old, pv} {
		if object == nil {
			continue
		}
		if id, ok := c.idOf(object); ok {
			c.queue(change.Replay, id)
		}
	}
	if !change.Replay && (pv == nil || old == nil || old.UID != pv.UID) {
		c.adopt(change.Key().Name)
	}
}

// hasNews reports whether the change of a volume may be the cause of a step.
func hasNews(old, pv *v1.PersistentVolume) bool {
	return !equality.Semantic.DeepEqual(old.Spec.ClaimRef, pv.Spec.ClaimRef) ||
		!slices.Equal(old.Spec.AccessModes, pv.Spec.AccessModes) ||
		!equality.Semantic.DeepEqual(old.Spec.PersistentVolumeSource, pv.Spec.PersistentVolumeSource) ||
		len(holderOf(old).without(holderOf(pv).Nodes).Nodes) > 0 // a user has freed the volume
}

// adopt looks again for the volumes of the VolumeAttachments that name a persistent volume, which is new or
// has gone. A replay is that of the VolumeAttachments, which comes when the caches have all objects.
func (c *Controller) adopt(volume string) {
	all, err := c.attachments.Cache().ByIndex(attachmentsByVolume, volume)
	if err != nil {
		return
	}
	for _, va := range all {
		c.volumePool.Add(c.keyOf(va))
	}
}

// attachmentChanged queues the volume of a VolumeAttachment. The end of one makes room on its node.
func (c *Controller) attachmentChanged(change api.Change[*storagev1.VolumeAttachment]) {
	if old := change.Old; old != nil && change.New != nil && old.UID != change.New.UID {
		c.attachmentChanged(api.Change[*storagev1.VolumeAttachment]{Old: old}) // its volume and node may be other ones
		change.Old = nil
	}
	va := change.Object()
	k := c.keyOf(va)
	if id, ok := c.idOfAttachment(va); ok && id != k.volume {
		c.queue(change.Replay, id) // which waits for the VolumeAttachment of an earlier volume
	}
	if change.Replay {
		c.volumePool.AddReplay(k)
		return
	}
	c.reportProgress(change, k.volume)
	if change.New == nil {
		c.orphans.forget(va.Name)
		c.noteMissing(key{orphan: va.Name})
		c.failures.forget(k.volume, types.NodeName(va.Spec.NodeName))
		c.queue(false, c.waiting.take(types.NodeName(va.Spec.NodeName))...)
	}
	c.volumePool.Add(k)
}

// nodeChanged queues the volumes that the change of a node concerns.
func (c *Controller) nodeChanged(change api.Change[*v1.Node]) {
	old, node := change.Old, change.New
	c.observe(change)
	switch {
	case change.Replay && node != nil:
		c.queue(true, reportedBy(node)...)
		return
	case old == nil || node == nil || old.UID != node.UID || hasNodeNews(old, node):
		c.queue(false, c.idsOnNode(change.Object())...)
	}
	if old != nil && node != nil {
		c.queue(false, changedEntries(old, node)...)
		c.queue(false, differences(old.Status.VolumesInUse, node.Status.VolumesInUse)...)
		if !equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) {
			c.queue(false, c.waiting.take(types.NodeName(node.Name))...)
		}
	}
}

// observe records the health of a node. The volumes that depend on a deleted one are queued, and record anew
// that it is missing.
func (c *Controller) observe(change api.Change[*v1.Node]) {
	name := types.NodeName(change.Key().Name)
	c.records.observe(name, change.New, time.Now(), false)
	if change.New == nil {
		c.records.forget(name)
		c.queue(false, c.waiting.take(name)...)
	}
}

// hasNodeNews reports whether the change of a node may be the cause of a step for each of its volumes.
func hasNodeNews(old, node *v1.Node) bool {
	return isHealthy(old) != isHealthy(node) || isOutOfService(old) != isOutOfService(node) ||
		isManaged(old) != isManaged(node) || keepsFinished(old) != keepsFinished(node) ||
		readyOf(old).Reason != readyOf(node).Reason
}

// idsOnNode returns the volumes of the pods of a node, and those that are or may be attached to it.
func (c *Controller) idsOnNode(node *v1.Node) []v1.UniqueVolumeName {
	ids := setOf(slices.Concat(reportedBy(node), node.Status.VolumesInUse))
	pods, _ := c.pods.ByIndex(podsByNode, node.Name)
	for _, pod := range pods {
		for _, id := range c.idsOfPod(pod) {
			ids[id] = true
		}
	}
	held, _ := c.volumes.Cache().ByIndex(volumesByHolder, node.Name)
	for _, pv := range held {
		if id, ok := c.idOf(pv); ok {
			ids[id] = true
		}
	}
	for _, id := range c.plugged.on(types.NodeName(node.Name)) {
		ids[id] = true
	}
	attachments, _ := c.attachments.Cache().ByIndex(attachmentsByNode, node.Name)
	for _, va := range attachments {
		if k := c.keyOf(va); k.volume != "" {
			ids[k.volume] = true
		} else {
			c.volumePool.Add(k)
		}
	}
	return slices.Collect(maps.Keys(ids))
}

// differences returns the names that one of two lists has.
func differences(a, b []v1.UniqueVolumeName) []v1.UniqueVolumeName {
	isIn := setOf(b)
	names := slices.DeleteFunc(slices.Clone(a), func(name v1.UniqueVolumeName) bool { return isIn[name] })
	isIn = setOf(a)
	return append(names, slices.DeleteFunc(slices.Clone(b), func(name v1.UniqueVolumeName) bool { return isIn[name] })...)
}

// changedEntries returns the volumes whose entry in volumesAttached differs between two states of a node.
func changedEntries(a, b *v1.Node) []v1.UniqueVolumeName {
	names := differences(reportedBy(a), reportedBy(b))
	for _, entry := range b.Status.VolumesAttached {
		isMoved := func(other v1.AttachedVolume) bool {
			return other.Name == entry.Name && other.DevicePath != entry.DevicePath
		}
		if slices.ContainsFunc(a.Status.VolumesAttached, isMoved) {
			names = append(names, entry.Name)
		}
	}
	return names
}

func setOf(names []v1.UniqueVolumeName) map[v1.UniqueVolumeName]bool {
	set := make(map[v1.UniqueVolumeName]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// driverChanged queues the volumes of a driver whose volumes have to be attached from now on, or no longer.
func (c *Controller) driverChanged(change api.Change[*storagev1.CSIDriver]) {
	if change.Replay || change.Old != nil && change.New != nil &&
		equality.Semantic.DeepEqual(change.Old.Spec.AttachRequired, change.New.Spec.AttachRequired) {
		return
	}
	volumes, _ := c.volumes.Cache().ByIndex(volumesByDriver, change.Key().Name)
	for _, pv := range volumes {
		if id, ok := c.idOf(pv); ok {
			c.queue(false, id)
		}
	}
}

// csiNodeChanged queues the volumes that wait for room on a node.
func (c *Controller) csiNodeChanged(change api.Change[*storagev1.CSINode]) {
	if !change.Replay {
		c.queue(false, c.waiting.take(types.NodeName(change.Key().Name))...)
	}
}
