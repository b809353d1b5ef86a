package node

import (
	"context"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// GetNodeAllocatable implements content.NodeGetter. It returns the allocatable resources of the
// node, which the source watches as long as a volume of a present pod has a resource of a container.
// It waits and fails as GetPersistentVolumeClaim does.
func (s *Source) GetNodeAllocatable(ctx context.Context) (v1.ResourceList, error) {
	node, err := read(ctx, s, &s.nodes, s.nodeKey())
	if err != nil {
		return nil, err
	}
	return node.Status.Allocatable, nil
}

func (s *Source) nodeKey() api.Key { return api.Key{Name: string(s.config.Node)} }

// nodeChanged reports changed allocatable resources for the pods that use them.
func (s *Source) nodeChanged(node *watchedObject[*v1.Node], change api.Change[*v1.Node], missed bool) {
	if change.Old != nil && change.New != nil &&
		equality.Semantic.DeepEqual(change.Old.Status.Allocatable, change.New.Status.Allocatable) {
		return // such as a heartbeat
	}
	contentChanged[*v1.Node](s)(node, change, missed)
}
