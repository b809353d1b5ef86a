package node

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// GetNodeAllocatable implements content.NodeGetter. It returns the allocatable resources of the
// node, which the source watches as long as a volume of a present pod has a resource of a container,
// the node has a mirror pod, or an [Attacher] of the source runs.
// It waits and fails as GetPersistentVolumeClaim does.
func (s *Source) GetNodeAllocatable(ctx context.Context) (v1.ResourceList, error) {
	node, err := read(ctx, s, &s.nodes, s.nodeKey())
	if err != nil {
		return nil, err
	}
	return node.Status.Allocatable, nil
}

func (s *Source) nodeKey() api.Key { return api.Key{Name: string(s.config.Node)} }

// A nodeFollower receives the changes of the node.
type nodeFollower struct{ changed func(api.Change[*v1.Node]) }

// noPod is the user of the node in place of a pod as long as the node has a follower.
const noPod = ""

// followNode watches the node until ctx ends, and calls changed for the last state and for each
// change. A call for the last state may come late, after a call for a newer one.
func (s *Source) followNode(ctx context.Context, changed func(api.Change[*v1.Node])) {
	f := &nodeFollower{changed}
	s.mu.Lock()
	s.followers[f] = true
	use(s, &s.nodes, s.nodeKey(), noPod)
	watched := s.nodes.objects[s.nodeKey()]
	s.mu.Unlock()
	if node, _ := watched.Last(); node != nil {
		changed(api.Change[*v1.Node]{New: node, Replay: true})
	}
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.followers, f); len(s.followers) == 0 {
		drop(&s.nodes, s.nodeKey(), noPod)
	}
}

// FollowLabels watches the Node object until ctx ends, and calls changed with its labels: for their first state,
// after each change of the node, one call at a time. It makes no call while there is no Node object. Set
// SetNodeLabels of the manager as changed: CSI drivers with a topology label the node when they register.
// FollowLabels needs Run, and returns nil.
func (s *Source) FollowLabels(ctx context.Context, changed func(labels map[string]string)) error {
	var mu sync.Mutex
	s.followNode(ctx, func(api.Change[*v1.Node]) {
		mu.Lock()
		defer mu.Unlock()
		if node := s.lastNode(); node != nil { // the change may be an older state
			changed(node.Labels)
		}
	})
	return nil
}

// lastNode returns the last known state of the node, nil if there is none.
func (s *Source) lastNode() *v1.Node {
	s.mu.Lock()
	watched := s.nodes.objects[s.nodeKey()]
	s.mu.Unlock()
	if watched == nil {
		return nil
	}
	node, _ := watched.Last()
	return node
}

// nodeChanged passes a change of the node to the followers, and reports changed allocatable
// resources for the pods that use them.
func (s *Source) nodeChanged(node *watchedObject[*v1.Node], change api.Change[*v1.Node], missed bool) {
	s.checkNode()
	s.mu.Lock()
	followers := slices.Collect(maps.Keys(s.followers))
	s.mu.Unlock()
	for _, f := range followers {
		f.changed(change)
	}
	if change.Old != nil && change.New != nil &&
		equality.Semantic.DeepEqual(change.Old.Status.Allocatable, change.New.Status.Allocatable) {
		return // such as a heartbeat
	}
	contentChanged[*v1.Node](s)(node, change, missed)
}
