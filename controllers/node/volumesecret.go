package node

import (
	"maps"
	"strings"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
)

// volumeUser begins the user of a Secret that is a persistent volume. No UID of a pod contains a
// slash.
const volumeUser = "volume/"

// isPod reports whether the user of an object is the UID of a pod.
func isPod(user string) bool { return user != noPod && !strings.HasPrefix(user, volumeUser) }

// secretsOf returns the Secrets that a driver of a persistent volume receives on the node.
func secretsOf(volume *v1.PersistentVolume) map[api.Key]bool {
	if volume == nil || volume.Spec.CSI == nil {
		return nil
	}
	csi, keys := volume.Spec.CSI, map[api.Key]bool{}
	for _, ref := range []*v1.SecretReference{csi.NodeStageSecretRef, csi.NodePublishSecretRef, csi.NodeExpandSecretRef} {
		if ref != nil && ref.Name != "" && ref.Namespace != "" {
			keys[api.Key{Namespace: ref.Namespace, Name: ref.Name}] = true
		}
	}
	return keys
}

// followSecrets watches the Secrets that the last state of a volume names.
func (s *Source) followSecrets(volume string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watched := s.volumes.objects[api.Key{Name: volume}]
	if watched == nil {
		return // no claim uses the volume any more
	}
	last, _ := watched.Last()
	s.setSecretsOf(volume, secretsOf(last))
}

// setSecretsOf makes a volume the user of Secrets, and of no other ones. The caller holds mu.
func (s *Source) setSecretsOf(volume string, keys map[api.Key]bool) {
	last := s.secretsOf[volume]
	if maps.Equal(last, keys) {
		return
	}
	user := volumeUser + volume
	for key := range keys {
		if !last[key] {
			use(s, &s.secrets, key, user)
		}
	}
	for key := range last {
		if !keys[key] {
			drop(&s.secrets, key, user)
		}
	}
	if len(keys) == 0 {
		delete(s.secretsOf, volume)
	} else {
		s.secretsOf[volume] = keys
	}
}
