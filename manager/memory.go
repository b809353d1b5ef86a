package manager

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A MemorySource is a [Source] that is told what there is: for agents that learn of
// pods in their own way, and for tests. It is safe for concurrent use. Make one with
// [NewMemorySource].
type MemorySource struct {
	mu      sync.Mutex
	pods    map[types.UID]*v1.Pod
	claims  map[types.NamespacedName]*v1.PersistentVolumeClaim
	volumes map[string]*v1.PersistentVolume
	changed chan struct{}
}

// NewMemorySource returns a source without pods.
func NewMemorySource() *MemorySource {
	return &MemorySource{
		pods:    map[types.UID]*v1.Pod{},
		claims:  map[types.NamespacedName]*v1.PersistentVolumeClaim{},
		volumes: map[string]*v1.PersistentVolume{},
		changed: make(chan struct{}, 1),
	}
}

func (s *MemorySource) change(do func()) {
	s.mu.Lock()
	do()
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// SetPod adds the pod, or replaces the one with its UID. It keeps the pointer.
func (s *MemorySource) SetPod(pods ...*v1.Pod) {
	s.change(func() {
		for _, pod := range pods {
			s.pods[pod.UID] = pod
		}
	})
}

// RemovePod removes the pod, if it is there.
func (s *MemorySource) RemovePod(uids ...types.UID) {
	s.change(func() {
		for _, uid := range uids {
			delete(s.pods, uid)
		}
	})
}

// SetClaim adds the claim, or replaces the one of its name. It keeps the pointer.
func (s *MemorySource) SetClaim(claim *v1.PersistentVolumeClaim) {
	s.change(func() { s.claims[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = claim })
}

// RemoveClaim removes the claim, if it is there.
func (s *MemorySource) RemoveClaim(namespace, name string) {
	s.change(func() { delete(s.claims, types.NamespacedName{Namespace: namespace, Name: name}) })
}

// SetVolume adds the volume, or replaces the one of its name. It keeps the pointer.
func (s *MemorySource) SetVolume(pv *v1.PersistentVolume) {
	s.change(func() { s.volumes[pv.Name] = pv })
}

// RemoveVolume removes the volume, if it is there.
func (s *MemorySource) RemoveVolume(name string) {
	s.change(func() { delete(s.volumes, name) })
}

// Pods implements [Source].
func (s *MemorySource) Pods(context.Context) ([]*v1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.pods), func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) }), nil
}

// PersistentVolumeClaim implements [Source].
func (s *MemorySource) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if claim, ok := s.claims[types.NamespacedName{Namespace: namespace, Name: name}]; ok {
		return claim, nil
	}
	return nil, fmt.Errorf("claim %s/%s: %w", namespace, name, fs.ErrNotExist)
}

// PersistentVolume implements [Source].
func (s *MemorySource) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pv, ok := s.volumes[name]; ok {
		return pv, nil
	}
	return nil, fmt.Errorf("persistent volume %s: %w", name, fs.ErrNotExist)
}

// Changed implements [Source].
func (s *MemorySource) Changed() <-chan struct{} { return s.changed }
