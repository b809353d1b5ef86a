package attach

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A volumeView is a view with the objects that it was made from.
type volumeView struct {
	view
	sources []*v1.PersistentVolume // with the unique name, sorted by name
	byName  map[types.NodeName]*nodeView
	// pvs and specs are those that the pods of each node use.
	pvs         map[types.NodeName]*v1.PersistentVolume
	specs       map[types.NodeName]*volume.Spec
	attachments map[types.NodeName]*storagev1.VolumeAttachment // with the name of the volume and the node
	earlier     []*storagev1.VolumeAttachment                  // see isEarlier
	isCSI       bool
	attachErr   error // of the plugin's CanAttach: the volume counts as attachable, and attaches fail
	objects     map[types.NodeName]*v1.Node
	fullFor     time.Duration // the pause before the next look at full nodes. 0: none is needed
	lastWrite   uint64        // of volumesAttached, before the view
}

// node returns the view of a node, a new one if there was none.
func (v *volumeView) node(name types.NodeName) *nodeView {
	n := v.byName[name]
	if n == nil {
		n = &nodeView{name: name}
		v.byName[name] = n
	}
	return n
}

// view returns the newest known state of a volume on all its nodes.
func (c *Controller) view(ctx context.Context, id v1.UniqueVolumeName) (*volumeView, error) {
	v := &volumeView{
		view:   view{id: id, now: time.Now()},
		byName: map[types.NodeName]*nodeView{}, pvs: map[types.NodeName]*v1.PersistentVolume{},
		specs: map[types.NodeName]*volume.Spec{}, attachments: map[types.NodeName]*storagev1.VolumeAttachment{},
		objects: map[types.NodeName]*v1.Node{}, lastWrite: c.reports.lastWrite(),
	}
	_, _, v.isCSI = splitCSI(id)
	v.keepsHolder = v.isCSI
	for _, add := range []func(context.Context, *volumeView) error{
		c.addUses, c.addInlineUses, c.addAttachments, c.addNodes, c.addEarlier, c.addState,
	} {
		if err := add(ctx, v); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.byName)) {
		v.nodes = append(v.nodes, v.byName[name])
	}
	return v, nil
}

// addUses adds the persistent volumes with the unique name, and the pods that use them.
func (c *Controller) addUses(ctx context.Context, v *volumeView) (err error) {
	if v.sources, err = c.volumes.ByIndex(ctx, volumesByID, string(v.id)); err != nil {
		return fmt.Errorf("read the persistent volumes: %w", err)
	}
	slices.SortFunc(v.sources, func(a, b *v1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	for _, pv := range v.sources {
		v.isExclusive = v.isExclusive || isExclusive(pv)
		pods, err := c.podsOfVolume(pv)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			name := types.NodeName(pod.Spec.NodeName)
			n := v.node(name)
			n.pods = append(n.pods, pod)
			v.pvs[name], v.specs[name] = pv, volume.NewSpecFromPersistentVolume(pv, false)
		}
		for _, name := range holderOf(pv).Nodes {
			v.node(name).isHeld = true
		}
	}
	return nil
}

// addInlineUses adds the pods that have the volume in their spec.
func (c *Controller) addInlineUses(_ context.Context, v *volumeView) error {
	if v.isCSI || c.config.Plugins == nil {
		return nil
	}
	pods, err := c.pods.ByIndex(podsByInline, string(v.id))
	if err != nil {
		return err
	}
	for _, pod := range pods {
		name := types.NodeName(pod.Spec.NodeName)
		for i := range pod.Spec.Volumes {
			if id, ok := c.inlineID(&pod.Spec.Volumes[i]); ok && id == v.id {
				n := v.node(name)
				n.pods = append(n.pods, pod)
				v.specs[name] = volume.NewSpecFromVolume(&pod.Spec.Volumes[i])
				break
			}
		}
	}
	return nil
}

// addAttachments adds the nodes that the volume may be attached to.
func (c *Controller) addAttachments(ctx context.Context, v *volumeView) error {
	if !v.isCSI {
		c.addPlugged(v)
		return nil
	}
	var all []*storagev1.VolumeAttachment
	for _, pv := range v.sources {
		of, err := c.attachments.ByIndex(ctx, attachmentsByVolume, pv.Name)
		if err != nil {
			return fmt.Errorf("read the VolumeAttachments: %w", err)
		}
		all = append(all, of...)
	}
	for _, name := range slices.Concat(c.orphans.of(v.id), c.orphans.of("")) {
		va, err := c.attachments.Get(ctx, api.Key{Name: name})
		if err != nil {
			return fmt.Errorf("read VolumeAttachment %q: %w", name, err)
		}
		switch {
		case va == nil:
			c.orphans.forget(name)
		case c.orphans.idOf(name) == "" && !isNamedFor(va, v.id):
		case !c.handOver(va):
			c.orphans.set(name, v.id) // of a volume that has another name now
			all = append(all, va)
		}
	}
	driver, _, _ := splitCSI(v.id)
	for _, va := range all {
		switch {
		case va.Spec.Attacher != driver:
		case isEarlier(va, v.id):
			v.node(types.NodeName(va.Spec.NodeName))
			v.earlier = append(v.earlier, va)
		default:
			v.addAttachment(va)
		}
	}
	c.addOpenCalls(v)
	return nil
}

// handOver queues the present volume of a VolumeAttachment of an earlier one if its node has left the earlier
// volume, and reports whether it has.
func (c *Controller) handOver(va *storagev1.VolumeAttachment) bool {
	present, ok := c.idOfAttachment(va)
	if !ok || c.keyOf(va).volume != present {
		return false
	}
	c.queue(false, present)
	return true
}

// addAttachment adds the state of a VolumeAttachment.
func (v *volumeView) addAttachment(va *storagev1.VolumeAttachment) {
	name := types.NodeName(va.Spec.NodeName)
	n := v.node(name)
	switch {
	case !isNamedFor(va, v.id):
		if n.state == detached {
			n.state = foreign
		}
		return
	case va.DeletionTimestamp != nil:
		n.state = detaching
	case va.Status.Attached:
		n.state = attached
	default:
		n.state = attaching
	}
	v.attachments[name] = va
}

// addOpenCalls adds the times until which creations of VolumeAttachments may take effect: those of other
// runs, by the holders, and those of this run whose outcome is open.
func (c *Controller) addOpenCalls(v *volumeView) {
	for _, pv := range v.sources {
		h := holderOf(pv)
		for _, name := range h.Nodes {
			v.node(name).keepOpen(h.openUntil(c.run, v.now))
		}
	}
	for name, until := range c.lost.of(v.id, v.now) {
		v.node(name).keepOpen(until)
	}
}

func (n *nodeView) keepOpen(until time.Time) {
	if until.After(n.openUntil) {
		n.openUntil = until
	}
}

// addPlugged adds the states of a volume that a plugin attaches. A node that a holder names is uncertain,
// unless this run has attached the volume there, or has detached it under the same holder. A node that no
// holder names any more is uncertain if this run has attached the volume there.
func (c *Controller) addPlugged(v *volumeView) {
	known := c.plugged.of(v.id)
	for name, state := range known {
		n := v.node(name)
		n.state, n.devicePath = state.state, state.devicePath
		if n.state != detached && !v.isHeldFor(name) {
			n.state = uncertain
		}
	}
	for _, pv := range v.sources {
		h := holderOf(pv)
		for _, name := range h.Nodes {
			n := v.node(name)
			state, isKnown := known[name]
			if !isKnown || !state.countsUnder(h, c.run, v.now) {
				n.state = uncertain
			}
			n.keepOpen(h.openUntil(c.run, v.now))
		}
	}
}

// markOf returns the mark of the holder of the volume for a node, or "".
func (v *volumeView) markOf(node types.NodeName) string {
	for _, pv := range v.sources {
		if h := holderOf(pv); slices.Contains(h.Nodes, node) {
			return h.mark()
		}
	}
	return ""
}

// isHeldFor reports whether a holder names a node. A volume without an object has no holder.
func (v *volumeView) isHeldFor(node types.NodeName) bool {
	return len(v.sources) == 0 || v.markOf(node) != ""
}

// addNodes adds the nodes that report the volume, and the state of all Node objects.
func (c *Controller) addNodes(ctx context.Context, v *volumeView) error {
	reporting, err := c.nodes.ByIndex(ctx, nodesByReported, string(v.id))
	if err != nil {
		return fmt.Errorf("read the nodes: %w", err)
	}
	for _, node := range reporting {
		v.node(types.NodeName(node.Name))
	}
	for name, n := range v.byName {
		node, err := c.nodes.Get(ctx, api.Key{Name: string(name)})
		if err != nil {
			return fmt.Errorf("read node %q: %w", name, err)
		}
		v.objects[name] = node
		c.addNode(v, n, node)
	}
	return nil
}

// addNode adds the state of a Node object, nil for a missing one.
func (c *Controller) addNode(v *volumeView, n *nodeView, node *v1.Node) {
	record := c.records.observe(n.name, node, v.now, false)
	if !record.since.IsZero() {
		n.deadFrom = record.since.Add(c.config.UnhealthyAfter)
		if !v.now.Before(n.deadFrom) {
			n.dead = causeTimeout
		}
	}
	var last withdrawal
	n.pending, last = c.reports.state(n.name, v.id)
	if node == nil {
		return
	}
	if isOutOfService(node) {
		n.dead = causeOutOfService
	}
	n.exists, n.isManaged, n.reportsFrom = true, isManaged(node), record.reportsFrom(node)
	if i := slices.IndexFunc(node.Status.VolumesAttached, func(a v1.AttachedVolume) bool { return a.Name == v.id }); i >= 0 {
		n.isReported, n.reportedPath = true, node.Status.VolumesAttached[i].DevicePath
	}
	n.isInUse = slices.Contains(node.Status.VolumesInUse, v.id)
	isProven := last.node == node.UID && (n.dead != "" || !last.at.Before(n.reportsFrom))
	n.isWithdrawn = isProven && !n.isReported && n.pending != adding
	if !keepsFinished(node) {
		n.pods = slices.DeleteFunc(slices.Clone(n.pods), hasFinished)
	}
}

// addEarlier adds the VolumeAttachments that were made for earlier volumes of the same names. A driver attaches
// and detaches by the handle of the present volume: a node may have the one or the other, and leaves both.
func (c *Controller) addEarlier(ctx context.Context, v *volumeView) error {
	for name, va := range v.attachments {
		present, ok := c.idOfAttachment(va)
		if !ok || present == v.id {
			continue
		}
		isUsed, err := c.mayUse(ctx, name, v.objects[name], present)
		if err != nil {
			return err
		}
		v.byName[name].isInUse = v.byName[name].isInUse || isUsed
	}
	for _, va := range v.earlier {
		name := types.NodeName(va.Spec.NodeName)
		n, id := v.byName[name], c.guess(va, v.objects[name])
		if id != "" {
			c.orphans.set(va.Name, id)
			c.volumePool.Add(key{volume: id}) // its plan waits for changes of this volume
		}
		switch {
		case n.state != detached:
			continue
		case id != "":
			n.state = foreign
			continue
		case va.DeletionTimestamp != nil:
			n.state = detaching
		default:
			n.state = uncertain
		}
		v.attachments[name] = va
	}
	return nil
}

// mayUse reports whether a list of a node names a CSI volume, or the volume has a VolumeAttachment there.
func (c *Controller) mayUse(ctx context.Context, name types.NodeName, node *v1.Node, id v1.UniqueVolumeName) (bool, error) {
	if node != nil && slices.Contains(slices.Concat(reportedBy(node), node.Status.VolumesInUse), id) {
		return true, nil
	}
	driver, handle, _ := splitCSI(id)
	va, err := c.attachments.Get(ctx, api.Key{Name: attachmentName(driver, handle, name)})
	if err != nil {
		return false, fmt.Errorf("read the VolumeAttachment of node %q: %w", name, err)
	}
	return va != nil, nil
}

// addState adds the pauses, the room of the nodes, and whether the volume has to be attached.
func (c *Controller) addState(ctx context.Context, v *volumeView) error {
	v.isAttachable = c.isAttachable(ctx, v)
	known := c.plugged.of(v.id)
	for name, n := range v.byName {
		if !n.exists {
			n.pods = slices.DeleteFunc(slices.Clone(n.pods), hasFinished)
		}
		if _, isKnown := known[name]; !v.isCSI && n.isReported && n.state == detached && !isKnown {
			n.state = uncertain
		}
		n.pausedUntil = c.failures.until(v.id, name)
		if v.isWanted(n) && (n.state == detached || n.state == uncertain) {
			isFull, pause := c.isFull(ctx, v, name)
			if n.isFull = isFull; isFull {
				v.fullFor = max(v.fullFor, pause)
			}
		}
	}
	return nil
}

// isAttachable reports whether the volume has to be attached: by the CSIDriver object, or by the plugin.
func (c *Controller) isAttachable(ctx context.Context, v *volumeView) bool {
	if v.isCSI {
		driver, _, _ := splitCSI(v.id)
		object, ok := c.drivers.Get(api.Key{Name: driver})
		return !ok || object.Spec.AttachRequired == nil || *object.Spec.AttachRequired
	}
	plugin, ok := c.attachPlugin(v.id)
	if !ok {
		return false
	}
	for _, spec := range v.specs {
		var can bool
		can, v.attachErr = c.canAttach(ctx, plugin, spec)
		return can || v.attachErr != nil
	}
	return false
}

// canAttach reports whether a plugin attaches a volume.
func (c *Controller) canAttach(ctx context.Context, plugin volume.AttachableVolumePlugin, spec *volume.Spec) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	can, err := plugin.CanAttach(ctx, spec)
	if err != nil {
		return false, fmt.Errorf("query the plugin: %w", err)
	}
	return can, nil
}
