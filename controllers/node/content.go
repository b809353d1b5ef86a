package node

import (
	"context"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// GetConfigMap implements content.ConfigMapGetter. It returns ConfigMaps that volumes of present pods
// use. It waits and fails as GetPersistentVolumeClaim does.
func (s *Source) GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return read(ctx, s, &s.configMaps, api.Key{Namespace: namespace, Name: name})
}

// GetSecret implements content.SecretGetter, like GetConfigMap. It also returns the Secrets that the
// driver of an inline CSI volume, or of a persistent volume that GetPersistentVolume returns, receives
// on the node: it is a csi.SecretGetter of module csi.
func (s *Source) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return read(ctx, s, &s.secrets, api.Key{Namespace: namespace, Name: name})
}

// contentChanged returns the function that reports a changed ConfigMap or Secret for the pods that
// use it. The first state of an object is reported only if a read has failed before it.
func contentChanged[O api.Object](s *Source) func(*watchedObject[O], api.Change[O], bool) {
	return func(object *watchedObject[O], change api.Change[O], missed bool) {
		if change.Replay && !missed {
			return
		}
		s.mu.Lock()
		pods := make([]types.UID, 0, len(object.users))
		for user := range object.users {
			if isPod(user) {
				pods = append(pods, types.UID(user))
			}
		}
		s.mu.Unlock()
		s.subscribers.reportContent(pods)
	}
}
