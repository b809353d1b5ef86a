package attach

import (
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// settleTime is the time after the first sight of a Node object from which its list of volumes in use
// counts: an object that was deleted and created again has an empty list until its node reports.
const settleTime = time.Minute

// neverUpdated is the reason of the condition Ready of a node that has never reported.
const neverUpdated = "NodeStatusNeverUpdated"

// A nodeRecord is the health of a node as this run has seen it.
type nodeRecord struct {
	uid  types.UID // "": the Node object is missing
	born time.Time // the first sight of the object
	// since is the time since which the node is missing or not healthy. Zero: it is healthy.
	since      time.Time
	transition metav1.Time // of the condition Ready, at since
}

// nodeRecords are the records of nodes. The zero value is empty.
type nodeRecords struct {
	mu sync.Mutex
	of map[types.NodeName]nodeRecord
	// needs are the missing nodes that the work on a key depends on, and users the keys of each.
	needs map[key][]types.NodeName
	users map[types.NodeName]map[key]bool
}

// observe updates the record of a node, nil for a missing one, and returns it. isOld is true for a node
// that the first list of the cache has.
func (r *nodeRecords) observe(name types.NodeName, node *v1.Node, now time.Time, isOld bool) nodeRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, isKnown := r.of[name]
	next := nodeRecord{born: last.born, since: last.since}
	if node != nil {
		next.uid, next.transition = node.UID, readyOf(node).LastTransitionTime
	}
	if !isKnown || last.uid != next.uid {
		next.born, next.since = now, time.Time{}
		if isOld && node != nil {
			next.born = node.CreationTimestamp.Time
		}
	}
	switch {
	case node != nil && isHealthy(node):
		next.since = time.Time{}
	case next.since.IsZero() || !last.transition.Equal(&next.transition):
		next.since = now
	}
	if r.of == nil {
		r.of = map[types.NodeName]nodeRecord{}
	}
	r.of[name] = next
	return next
}

// forget drops the record of a node, unless work depends on the node.
func (r *nodeRecords) forget(name types.NodeName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.users[name]) == 0 {
		delete(r.of, name)
	}
}

// setNeeds sets the missing nodes that the work on a key depends on, and returns those before.
func (r *nodeRecords) setNeeds(k key, names []types.NodeName) (before []types.NodeName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.needs == nil {
		r.needs, r.users = map[key][]types.NodeName{}, map[types.NodeName]map[key]bool{}
	}
	before = r.needs[k]
	for _, name := range before {
		if delete(r.users[name], k); len(r.users[name]) == 0 {
			delete(r.users, name)
		}
	}
	delete(r.needs, k)
	for _, name := range names {
		r.needs[k] = append(r.needs[k], name)
		if r.users[name] == nil {
			r.users[name] = map[key]bool{}
		}
		r.users[name][k] = true
	}
	return before
}

// noteMissing records the nodes that the work on a key depends on, so far as they are missing, and drops the
// records of missing nodes that no work depends on.
func (c *Controller) noteMissing(k key, names ...types.NodeName) {
	missing := slices.DeleteFunc(slices.Clone(names), c.isNode)
	for _, name := range c.records.setNeeds(k, missing) {
		if !c.isNode(name) {
			c.records.forget(name)
		}
	}
}

// isNode reports whether the cache has a Node object.
func (c *Controller) isNode(name types.NodeName) bool {
	_, ok := c.nodes.Cache().Get(api.Key{Name: string(name)})
	return ok
}

// reportsFrom returns the time from which the lists of a node count. Zero: it has not reported.
func (r nodeRecord) reportsFrom(node *v1.Node) time.Time {
	ready := readyOf(node)
	if ready.Type == "" || ready.Reason == neverUpdated {
		return time.Time{}
	}
	return r.born.Add(settleTime)
}

// readyOf returns the condition Ready of a node; its zero value if there is none.
func readyOf(node *v1.Node) v1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition
		}
	}
	return v1.NodeCondition{}
}

func isHealthy(node *v1.Node) bool { return readyOf(node).Status == v1.ConditionTrue }

// isOutOfService reports whether an administrator has declared a node dead.
func isOutOfService(node *v1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == v1.TaintNodeOutOfService {
			return true
		}
	}
	return false
}

// isManaged reports whether a controller attaches the volumes of a node.
func isManaged(node *v1.Node) bool { return node.Annotations[ManagedAnnotation] == "true" }

// keepsFinished reports whether finished pods keep their volumes on a node.
func keepsFinished(node *v1.Node) bool { return node.Annotations[KeepTerminatedAnnotation] == "true" }
