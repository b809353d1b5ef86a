package screen

import (
	"context"
	"maps"
	"sync"

	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// names maps UIDs to names of pods. It keeps names of deleted pods while they have volumes.
// All methods are safe for concurrent use.
type names struct {
	mu sync.Mutex
	of map[types.UID]string
}

func (n *names) learn(pods ...*v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, pod := range pods {
		n.of[pod.UID] = nameOf(pod)
	}
}

// name returns the UID of a pod without a known name.
func (n *names) name(pod types.UID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name := n.of[pod]; name != "" {
		return name
	}
	return string(pod)
}

// forgetBut forgets all pods except these.
func (n *names) forgetBut(pods map[types.UID]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.of, func(pod types.UID, _ string) bool { return pods[pod] == "" })
}

func nameOf(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// PodNames returns the names of the pods of a source, as NAMESPACE/NAME. If the source fails there
// are none.
func PodNames(ctx context.Context, source manager.PodSource) map[types.UID]string {
	all := map[types.UID]string{}
	pods, _ := source.Pods(ctx) // without it the UIDs are shown
	for _, pod := range pods {
		all[pod.UID] = nameOf(pod)
	}
	return all
}
