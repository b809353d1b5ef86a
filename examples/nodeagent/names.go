package main

import (
	"context"
	"maps"
	"sync"

	"github.com/volumekit/volumekit/manager/manifests"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// names are what pods are called. Those of pods that are gone are remembered while they
// have volumes. All methods are safe for concurrent use.
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

// name is the UID where nobody knows more.
func (n *names) name(pod types.UID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name := n.of[pod]; name != "" {
		return name
	}
	return string(pod)
}

// forgetBut forgets all but some pods.
func (n *names) forgetBut(pods map[types.UID]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.of, func(pod types.UID, _ string) bool { return pods[pod] == "" })
}

func nameOf(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// podNames returns those of the pods in the manifests.
func podNames(ctx context.Context, source *manifests.Source) map[types.UID]string {
	all := map[types.UID]string{}
	pods, _ := source.Pods(ctx) // without it the UIDs are shown
	for _, pod := range pods {
		all[pod.UID] = nameOf(pod)
	}
	return all
}
