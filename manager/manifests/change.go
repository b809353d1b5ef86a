package manifests

import (
	"reflect"

	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var (
	_ manager.IncrementalPodSource = (*Source)(nil)
	_ volume.ClaimReader           = (*Source)(nil)
)

// Subscribe makes the source call changed after each reading that has found a change, with the pods,
// claims and volumes that differ, while Run runs. Changed must not call the source. After unsubscribe
// has returned changed is not called.
func (s *Source) Subscribe(changed func(manager.Change)) (unsubscribe func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers == nil {
		s.subscribers = map[*func(manager.Change)]bool{}
	}
	s.subscribers[&changed] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, &changed)
	}
}

// publish reports a change to the subscribers and on the channel. The caller holds mu.
func (s *Source) publish(change manager.Change) {
	if !reflect.ValueOf(change).IsZero() {
		for changed := range s.subscribers {
			(*changed)(change)
		}
	}
	notify(s.changed)
}

// reuse replaces objects by equal ones of the last reading, so that a pointer changes only
// with its object, and returns the difference. Last is nil at the first reading.
func (all *objects) reuse(last *objects) (change manager.Change) {
	if last == nil {
		return manager.Change{Everything: true}
	}
	change.Pods = reuseEqual(last.byUID, all.byUID)
	for i, pod := range all.pods {
		all.pods[i] = all.byUID[pod.UID]
	}
	change.Claims = reuseEqual(last.claims, all.claims)
	for _, name := range reuseEqual(last.volumes, all.volumes) {
		change.Volumes = append(change.Volumes, name.Name)
	}
	reuseEqual(last.configMaps, all.configMaps)
	reuseEqual(last.secrets, all.secrets)
	return change
}

// object is a kind of object.
type object interface {
	v1.Pod | v1.PersistentVolumeClaim | v1.PersistentVolume | v1.ConfigMap | v1.Secret
}

// reuseEqual replaces objects by equal ones of the same key, and returns the keys of the
// objects that were added, changed or removed.
func reuseEqual[K types.UID | types.NamespacedName, T object](last, next map[K]*T) (differ []K) {
	for key, now := range next {
		before, ok := last[key]
		if ok && (before == now || reflect.DeepEqual(before, now)) {
			next[key] = before
			continue
		}
		differ = append(differ, key)
	}
	for key := range last {
		if _, ok := next[key]; !ok {
			differ = append(differ, key)
		}
	}
	return differ
}
