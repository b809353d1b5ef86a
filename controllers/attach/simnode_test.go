package attach_test

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A simNode is a machine with its agent.
type simNode struct {
	name    string
	isUp    bool
	isCut   bool // without a connection to the API server
	isLying bool // about the lists of its status
	mounted map[string]bool
	// faked are the disks that a lie has added to volumesAttached, and doubtful the mounted ones that may be detached
	// because of a lie.
	faked, doubtful map[string]bool
	// isReady and isTainted are the state that the Node object shows; notReadySince is the time of its last change.
	isReady, isTainted bool
	notReadySince      time.Time
	excusedUntil       time.Time  // a decision of before may still be carried out
	mu                 sync.Mutex // guards the fields against calls of the plugin, which read them
}

// change changes the fields.
func (n *simNode) change(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// keeps reports whether the node must keep a disk at a time: it has mounted the disk and is alive.
func (n *simNode) keeps(disk string, at time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mounted[disk] && !n.doubtful[disk] && n.isAlive(at)
}

// isAlive reports whether no rule of the cluster has let the node count as dead at a time.
func (n *simNode) isAlive(at time.Time) bool {
	return n.isUp && !n.countsAsDead(at) && !at.Before(n.excusedUntil)
}

// countsAsDead applies the rules of the cluster. The times of the API server have whole seconds.
func (n *simNode) countsAsDead(at time.Time) bool {
	return n.isTainted || !n.isReady && !at.Before(n.notReadySince.Add(6*time.Minute-time.Second))
}

// recordReport records a report. A lie about a mounted disk lasts until the controller has to withdraw the disk again,
// and sees the truth then: until a true report finds the disk in volumesAttached, in an entry that is no lie.
func (s *simulation) recordReport(n *simNode, node *v1.Node) {
	n.change(func() {
		maps.DeleteFunc(n.faked, func(disk string, _ bool) bool { return !isReported(node, s.disk(disk)) })
		if n.isLying {
			maps.Copy(n.doubtful, n.mounted)
			return
		}
		maps.DeleteFunc(n.doubtful, func(disk string, _ bool) bool {
			return !n.mounted[disk] || !n.faked[disk] && isReported(node, s.disk(disk))
		})
	})
}

func isReported(node *v1.Node, disk diskSpec) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached, func(a v1.AttachedVolume) bool { return a.Name == disk.id() })
}

// setReady records the condition Ready of the Node object.
func (n *simNode) setReady(isReady bool) {
	now := time.Now()
	n.change(func() {
		switch {
		case n.isReady && !isReady:
			n.notReadySince = now
		case !n.isReady && isReady && n.countsAsDead(now):
			n.excusedUntil = now.Add(time.Minute)
		}
		n.isReady = isReady
	})
}

// work is one turn of the agent: it reports, mounts and unmounts.
func (s *simulation) work(n *simNode) {
	if !n.isUp || n.isCut {
		return
	}
	node := s.register(n)
	if node == nil {
		return
	}
	desired := s.desired(n.name)
	for _, disk := range slices.Sorted(maps.Keys(n.mounted)) {
		if !desired[disk] && s.IntN(3) > 0 {
			s.Log("%s unmounts %s", n.name, disk)
			n.change(func() { delete(n.mounted, disk) })
		}
	}
	if node = s.report(n, node, desired); node == nil {
		return
	}
	s.recordReport(n, node)
	n.setReady(true)
	for disk := range desired {
		s.mount(n, node, s.disk(disk))
	}
}

// report writes the status of a node, again after a conflict, and returns the Node object; nil if it has gone.
func (s *simulation) report(n *simNode, node *v1.Node, desired map[string]bool) *v1.Node {
	nodes := s.Cluster.Nodes()
	for {
		node.Status.VolumesInUse = s.inUse(n, desired)
		if n.isLying {
			node.Status.VolumesAttached = s.lieAboutAttached(n, node.Status.VolumesAttached)
		}
		if !n.isReady {
			node.Status.Conditions = []v1.NodeCondition{readyCondition(v1.ConditionTrue)}
		}
		written, err := nodes.UpdateStatus(s.Context, node, metav1.UpdateOptions{})
		if s.Tolerate(err) {
			return written
		}
		if node, err = nodes.Get(s.Context, n.name, metav1.GetOptions{}); !s.Tolerate(err) {
			return nil
		}
	}
}

// register returns the Node object, which the agent creates if there is none.
func (s *simulation) register(n *simNode) *v1.Node {
	nodes := s.Cluster.Nodes()
	node, err := nodes.Get(s.Context, n.name, metav1.GetOptions{})
	if err == nil {
		return node
	}
	if !apierrors.IsNotFound(err) {
		s.Must(err)
		return nil
	}
	s.Log("%s registers", n.name)
	if _, err = nodes.Create(s.Context, newNode(n.name, v1.ConditionFalse), metav1.CreateOptions{}); !s.Tolerate(err) {
		return nil
	}
	time.Sleep(time.Duration(s.IntN(40)) * time.Second) // the first report follows soon
	node, err = nodes.Get(s.Context, n.name, metav1.GetOptions{})
	s.Must(err)
	return node
}

// desired returns the disks of the pods of a node.
func (s *simulation) desired(node string) map[string]bool {
	disks := map[string]bool{}
	for _, pod := range s.Pods() {
		if pod.Spec.NodeName == node && pod.Status.Phase != v1.PodSucceeded {
			disks[pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName] = true
		}
	}
	return disks
}

// inUse returns the list of volumes in use that a node reports.
func (s *simulation) inUse(n *simNode, desired map[string]bool) (names []v1.UniqueVolumeName) {
	reported := maps.Clone(desired)
	for disk := range n.mounted {
		reported[disk] = true
	}
	if n.isLying {
		for _, disk := range slices.Sorted(maps.Keys(reported)) {
			if s.IntN(2) == 0 {
				delete(reported, disk)
			}
		}
		names = append(names, "kubernetes.io/csi/other.example.com^x", "garbage")
	}
	for disk := range reported {
		names = append(names, s.disk(disk).id())
	}
	slices.Sort(names)
	return names
}

// lieAboutAttached returns a list of attached volumes that lacks some, and has others: none that a false entry may
// block, see the package doc.
func (s *simulation) lieAboutAttached(n *simNode, list []v1.AttachedVolume) []v1.AttachedVolume {
	list = slices.DeleteFunc(list, func(v1.AttachedVolume) bool { return s.IntN(3) == 0 })
	if d := s.disks[s.IntN(len(s.disks))]; !d.isPlugin || d.isShared {
		n.change(func() { n.faked[d.name] = true })
		list = append(list, v1.AttachedVolume{Name: d.id(), DevicePath: "/dev/none"}, v1.AttachedVolume{Name: "garbage"})
	}
	return list
}

// mount mounts a disk if one state of the node permits it.
func (s *simulation) mount(n *simNode, node *v1.Node, disk diskSpec) {
	if n.mounted[disk.name] || !isReported(node, disk) || !slices.Contains(node.Status.VolumesInUse, disk.id()) || !s.storage.isAttached(disk.name, n.name) {
		return
	}
	if !disk.isPlugin {
		if va := s.attachment(disk.name, n.name); va == nil || va.DeletionTimestamp != nil || !va.Status.Attached {
			return
		}
	}
	s.Log("%s mounts %s", n.name, disk.name)
	n.change(func() {
		n.mounted[disk.name] = true
		if n.faked[disk.name] {
			n.doubtful[disk.name] = true
		}
	})
}

// attachment returns the VolumeAttachment of a disk on a node, nil if there is none.
func (s *simulation) attachment(disk, node string) *storagev1.VolumeAttachment {
	list, err := s.Cluster.VolumeAttachments().List(s.Context, metav1.ListOptions{})
	s.Must(err)
	for i, va := range list.Items {
		if *va.Spec.Source.PersistentVolumeName == disk && va.Spec.NodeName == node {
			return &list.Items[i]
		}
	}
	return nil
}

// changeNode changes the Node object of a node, if there is one.
func (s *simulation) changeNode(n *simNode, change func(*v1.Node)) bool {
	node, err := s.Cluster.Nodes().Get(s.Context, n.name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	change(node)
	_, err = s.Cluster.Nodes().Update(s.Context, node, metav1.UpdateOptions{})
	return s.Tolerate(err)
}

// changeStatus changes the status of a Node object, if there is one.
func (s *simulation) changeStatus(n *simNode, change func(*v1.NodeStatus)) bool {
	node, err := s.Cluster.Nodes().Get(s.Context, n.name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	change(&node.Status)
	_, err = s.Cluster.Nodes().UpdateStatus(s.Context, node, metav1.UpdateOptions{})
	return s.Tolerate(err)
}

// markNotReady is the node lifecycle controller: it marks a node without reports.
func (s *simulation) markNotReady(n *simNode) {
	if !n.isReady {
		return
	}
	s.Log("%s is not ready", n.name)
	if s.changeStatus(n, func(status *v1.NodeStatus) {
		status.Conditions = []v1.NodeCondition{readyCondition(v1.ConditionUnknown)}
	}) {
		n.setReady(false)
	}
}

// setTaint declares a node out of service, or ends this.
func (s *simulation) setTaint(n *simNode, isTainted bool) {
	var taints []v1.Taint
	if isTainted {
		taints = []v1.Taint{{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}}
	}
	was := n.isTainted
	if isTainted {
		n.showTaint(true) // a detach may follow at once
	}
	if s.changeNode(n, func(node *v1.Node) { node.Spec.Taints = taints }) {
		s.Log("%s is tainted: %v", n.name, isTainted)
		was = isTainted
	}
	n.showTaint(was)
}

// deleteNode deletes a Node object. The machine lives on.
func (s *simulation) deleteNode(n *simNode) {
	if s.Tolerate(s.Cluster.Nodes().Delete(s.Context, n.name, metav1.DeleteOptions{})) {
		s.Log("the Node object %s is deleted", n.name)
		n.setReady(false)
		n.showTaint(false)
	}
}

// showTaint records the taint of the Node object.
func (n *simNode) showTaint(isTainted bool) {
	n.change(func() {
		if n.isTainted && !isTainted {
			n.excusedUntil = time.Now().Add(time.Minute)
		}
		n.isTainted = isTainted
	})
}

// nodeOf returns a node by its name.
func (s *simulation) nodeOf(name string) *simNode {
	i := slices.IndexFunc(s.nodes, func(n *simNode) bool { return n.name == name })
	return s.nodes[i]
}

// disk returns a disk by its name.
func (s *simulation) disk(name string) diskSpec {
	return s.disks[slices.IndexFunc(s.disks, func(d diskSpec) bool { return d.name == name })]
}

func (s *simulation) isExclusive(disk string) bool { return !s.disk(disk).isShared }
