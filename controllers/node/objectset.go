package node

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// An objectSet is the watched objects of one kind. Source.mu guards it.
type objectSet[O api.Object] struct {
	resource string // in the plural, for errors
	// newWatch returns a watch of an object. The watch calls changed after each change.
	newWatch func(key api.Key, changed func(api.Change[O])) *api.ObjectWatch[O]
	// changed is called after a change of an object, without a lock. missed is true if a read has
	// failed because there was no first state yet.
	changed func(object *watchedObject[O], change api.Change[O], missed bool)
	objects map[api.Key]*watchedObject[O]
}

// A watchedObject is an object with its users: UIDs of pods, or keys of claims.
type watchedObject[O api.Object] struct {
	*api.ObjectWatch[O]
	key    api.Key
	users  map[string]bool
	stop   func()
	missed bool // a read has failed because there was no first state yet
}

// makeSets creates the empty sets.
func (s *Source) makeSets() {
	c := s.config.Cluster
	s.claims = newSet(s, "persistentvolumeclaims", c.PersistentVolumeClaims, s.claimChanged)
	s.volumes = newSet(s, "persistentvolumes", api.ClusterScoped(c.PersistentVolumes()), s.volumeChanged)
	s.configMaps = newSet(s, "configmaps", c.ConfigMaps, contentChanged[*v1.ConfigMap](s))
	s.secrets = newSet(s, "secrets", c.Secrets, contentChanged[*v1.Secret](s))
	s.nodes = newSet(s, "nodes", api.ClusterScoped(c.Nodes()), s.nodeChanged)
	s.bundles = map[bundleKey]*watchedBundles{}
}

// newSet returns an empty set. C is the client of a kind.
func newSet[C api.Reader[O, L], O api.Object, L api.List](s *Source, resource string, client func(namespace string) C,
	changed func(*watchedObject[O], api.Change[O], bool)) objectSet[O] {
	return objectSet[O]{
		resource: resource,
		newWatch: func(key api.Key, changed func(api.Change[O])) *api.ObjectWatch[O] {
			return api.NewObjectWatch(client(key.Namespace), api.ObjectWatchConfig[O]{Key: key, Changed: changed, Logger: s.config.Logger})
		},
		changed: changed,
		objects: map[api.Key]*watchedObject[O]{},
	}
}

// use adds a user to an object; the first user starts its watch. The caller holds mu.
func use[O api.Object](s *Source, set *objectSet[O], key api.Key, user string) {
	if object := set.objects[key]; object != nil {
		object.users[user] = true
		return
	}
	object := &watchedObject[O]{key: key, users: map[string]bool{user: true}}
	object.ObjectWatch = set.newWatch(key, func(change api.Change[O]) {
		s.mu.Lock()
		missed := object.missed
		object.missed = false
		s.mu.Unlock()
		set.changed(object, change, missed)
	})
	set.objects[key] = object
	object.stop = s.watches.add(func(ctx context.Context) { _ = object.Run(ctx) })
}

// drop removes a user from an object. If no user is left it ends the watch, and returns true. The
// caller holds mu.
func drop[O api.Object](set *objectSet[O], key api.Key, user string) (ended bool) {
	object := set.objects[key]
	if object == nil {
		return false
	}
	delete(object.users, user)
	if len(object.users) > 0 {
		return false
	}
	object.stop()
	delete(set.objects, key)
	return true
}

// acquire adds a pod to the users of the objects that it needs. The caller holds mu.
func (s *Source) acquire(pod types.UID, needed references) {
	for key := range needed.claims {
		use(s, &s.claims, key, string(pod))
	}
	for key := range needed.configMaps {
		use(s, &s.configMaps, key, string(pod))
	}
	for key := range needed.secrets {
		use(s, &s.secrets, key, string(pod))
	}
	for key := range needed.bundles {
		s.useBundles(key, pod)
	}
	if needed.node {
		use(s, &s.nodes, s.nodeKey(), string(pod))
	}
}

// release removes a pod from the users of the objects in had that are not in needed. The caller
// holds mu.
func (s *Source) release(pod types.UID, had, needed references) {
	for key := range had.claims {
		if !needed.claims[key] && drop(&s.claims, key, string(pod)) {
			s.setVolumeOf(key, "")
		}
	}
	for key := range had.configMaps {
		if !needed.configMaps[key] {
			drop(&s.configMaps, key, string(pod))
		}
	}
	for key := range had.secrets {
		if !needed.secrets[key] {
			drop(&s.secrets, key, string(pod))
		}
	}
	for key := range had.bundles {
		if !needed.bundles[key] {
			s.dropBundles(key, pod)
		}
	}
	if had.node && !needed.node {
		drop(&s.nodes, s.nodeKey(), string(pod))
	}
}

// read returns the last state of a watched object. It waits for the first list until ctx ends. A
// missing object is a not-found error; an object without a user, or without a successful list, is
// another error.
func read[O api.Object](ctx context.Context, s *Source, set *objectSet[O], key api.Key) (none O, err error) {
	s.mu.Lock()
	watched := set.objects[key]
	s.mu.Unlock()
	if watched == nil {
		return none, fmt.Errorf("%s %q: used by no pod of node %s", set.resource, name(key), s.config.Node)
	}
	object, err := watched.Get(ctx)
	switch {
	case err != nil:
		s.mu.Lock()
		watched.missed = true
		s.mu.Unlock()
		return none, unread(fmt.Sprintf("%s %q", set.resource, name(key)), err)
	case any(object) == any(none):
		return none, apierrors.NewNotFound(v1.Resource(set.resource), name(key))
	}
	return object, nil
}

// unread returns the error of a read before the first list, whose error is err. It does not wrap a
// "not found": an API server returns it for the list of a kind that it does not serve.
func unread(object string, err error) error {
	if volume.IsNotFound(err) {
		return fmt.Errorf("%s: not read yet: %s", object, err.Error())
	}
	return fmt.Errorf("%s: not read yet: %w", object, err)
}

// name returns a key as NAMESPACE/NAME, or as NAME for a cluster-scoped object.
func name(key api.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}
