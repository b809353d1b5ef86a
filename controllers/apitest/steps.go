package apitest

import (
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
)

// BindPod assigns a pod to a node, as the scheduler does by a binding. The clients of [api.Cluster]
// have no method for bindings. The error is "not found" for a missing pod, and a conflict for a pod
// that has a node.
func (s *Server) BindPod(namespace, name, node string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.tables[podKind].objects[api.Key{Namespace: namespace, Name: name}]
	if !ok {
		return podKind.notFound(name)
	}
	pod := copyOf(old).(*v1.Pod)
	if pod.Spec.NodeName != "" {
		return podKind.conflict(name, fmt.Errorf("pod %s is already assigned to node %q", name, pod.Spec.NodeName))
	}
	pod.Spec.NodeName = node
	pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
	s.store(podKind, old, pod)
	return nil
}

// RemoveNamespace removes a namespace and all its objects at once, with any finalizers: the result
// is that of a namespace controller and the owners of all finalizers. The error is "not found" for
// a missing namespace.
func (s *Server) RemoveNamespace(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, ok := s.tables[namespaceKind].objects[api.Key{Name: name}]
	if !ok {
		return namespaceKind.notFound(name)
	}
	for _, k := range kinds {
		if !k.namespaced {
			continue
		}
		sel := all(k)
		sel.namespace = name
		for _, object := range s.tables[k].find(sel) {
			s.remove(k, object)
		}
	}
	s.remove(namespaceKind, namespace)
	return nil
}
