package manager

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/internal/notfound"
	"github.com/volumekit/volumekit/volume"
)

// A MemorySource is an [IncrementalPodSource] and a [volume.ClaimReader] in memory, for agents
// that receive pods by other means, and for tests: set it as Config.Pods and Config.Claims. It is safe for concurrent use. The zero value
// has no pods and is ready for use.
type MemorySource struct {
	mu      sync.Mutex
	pods    map[types.UID]*v1.Pod
	claims  map[types.NamespacedName]*v1.PersistentVolumeClaim
	volumes map[string]*v1.PersistentVolume
	changed chan struct{}

	subscribers map[*func(Change)]bool
}

var (
	_ IncrementalPodSource = (*MemorySource)(nil)
	_ volume.ClaimReader   = (*MemorySource)(nil)
)

// NewMemorySource returns a source without pods.
func NewMemorySource() *MemorySource { return &MemorySource{} }

// makeParts creates the maps and the channel of a zero value. The caller holds mu.
func (s *MemorySource) makeParts() {
	if s.changed != nil {
		return
	}
	s.pods = map[types.UID]*v1.Pod{}
	s.claims = map[types.NamespacedName]*v1.PersistentVolumeClaim{}
	s.volumes = map[string]*v1.PersistentVolume{}
	s.changed = make(chan struct{}, 1)
	s.subscribers = map[*func(Change)]bool{}
}

// change applies a change and reports it.
func (s *MemorySource) change(change Change, apply func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeParts()
	apply()
	for changed := range s.subscribers {
		(*changed)(change)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// SetPod adds the pods, or replaces those with their UIDs. It keeps the pointers. If one
// of them is nil or has no UID the error is a [*field.Error], and nothing has changed.
func (s *MemorySource) SetPod(pods ...*v1.Pod) error {
	for i, pod := range pods {
		if err := checkPod(field.NewPath("pods").Index(i), pod); err != nil {
			return err
		}
	}
	uids := make([]types.UID, 0, len(pods))
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	s.change(Change{Pods: uids}, func() {
		for _, pod := range pods {
			s.pods[pod.UID] = pod
		}
	})
	return nil
}

// checkPod refuses a nil pod and a pod without a UID.
func checkPod(at *field.Path, pod *v1.Pod) error {
	switch {
	case pod == nil:
		return field.Required(at, "a pod is not nil")
	case pod.UID == "":
		return field.Required(at.Child("metadata", "uid"), "a pod has a UID")
	}
	return nil
}

// RemovePod removes the pods; a missing pod is no error.
func (s *MemorySource) RemovePod(uids ...types.UID) {
	s.change(Change{Pods: uids}, func() {
		for _, uid := range uids {
			delete(s.pods, uid)
		}
	})
}

// SetClaim adds the claim, or replaces the one of its name. It keeps the pointer. If the
// claim is nil or has no name the error is a [*field.Error], and nothing has changed.
func (s *MemorySource) SetClaim(claim *v1.PersistentVolumeClaim) error {
	if claim == nil || claim.Name == "" {
		return field.Required(field.NewPath("claim", "metadata", "name"), "a claim has a name")
	}
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	s.change(Change{Claims: []types.NamespacedName{name}}, func() { s.claims[name] = claim })
	return nil
}

// RemoveClaim removes the claim; a missing claim is no error.
func (s *MemorySource) RemoveClaim(namespace, name string) {
	gone := types.NamespacedName{Namespace: namespace, Name: name}
	s.change(Change{Claims: []types.NamespacedName{gone}}, func() { delete(s.claims, gone) })
}

// SetVolume adds the volume, or replaces the one of its name. It keeps the pointer. If the
// volume is nil or has no name the error is a [*field.Error], and nothing has changed.
func (s *MemorySource) SetVolume(pv *v1.PersistentVolume) error {
	if pv == nil || pv.Name == "" {
		return field.Required(field.NewPath("persistentVolume", "metadata", "name"), "a persistent volume has a name")
	}
	s.change(Change{Volumes: []string{pv.Name}}, func() { s.volumes[pv.Name] = pv })
	return nil
}

// RemoveVolume removes the volume; a missing volume is no error.
func (s *MemorySource) RemoveVolume(name string) {
	s.change(Change{Volumes: []string{name}}, func() { delete(s.volumes, name) })
}

// Pods implements [PodSource].
func (s *MemorySource) Pods(context.Context) ([]*v1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.pods), func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) }), nil
}

// Pod implements [IncrementalPodSource].
func (s *MemorySource) Pod(_ context.Context, uid types.UID) (*v1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod, ok := s.pods[uid]; ok {
		return pod, nil
	}
	return nil, notfound.Object("pod " + string(uid))
}

// Subscribe implements [ChangeNotifier]. After unsubscribe has returned changed is not
// called.
func (s *MemorySource) Subscribe(changed func(Change)) (unsubscribe func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeParts()
	s.subscribers[&changed] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, &changed)
	}
}

// GetPersistentVolumeClaim implements [volume.ClaimReader].
func (s *MemorySource) GetPersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if claim, ok := s.claims[types.NamespacedName{Namespace: namespace, Name: name}]; ok {
		return claim, nil
	}
	return nil, notfound.Object("claim " + namespace + "/" + name)
}

// GetPersistentVolume implements [volume.ClaimReader].
func (s *MemorySource) GetPersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pv, ok := s.volumes[name]; ok {
		return pv, nil
	}
	return nil, notfound.Object("persistent volume " + name)
}

// Changed implements [PodSource].
func (s *MemorySource) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeParts()
	return s.changed
}
