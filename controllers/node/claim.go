package node

import (
	"context"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// GetPersistentVolumeClaim implements volume.ClaimReader. It returns claims that volumes of present
// pods use. volume.IsNotFound is true for the error of a used claim that does not exist, and false
// for the errors of a claim that no present pod uses and of a claim that was not read yet. The
// first read of a claim waits for its first list until ctx ends.
func (s *Source) GetPersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	key := api.Key{Namespace: namespace, Name: name}
	claim, err := read(ctx, s, &s.claims, key)
	if err == nil {
		// The caller may read the volume before the change of the claim is reported.
		s.followVolume(key)
	}
	return claim, err
}

// GetPersistentVolume implements volume.ClaimReader. It returns the persistent volumes that these
// claims name. It waits and fails as GetPersistentVolumeClaim does.
func (s *Source) GetPersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	volume, err := read(ctx, s, &s.volumes, api.Key{Name: name})
	if err == nil {
		// The caller may read a Secret before the change of the volume is reported.
		s.followSecrets(name)
	}
	return volume, err
}

// claimChanged follows the volume of a claim, and reports the claim.
func (s *Source) claimChanged(claim *watchedObject[*v1.PersistentVolumeClaim], _ api.Change[*v1.PersistentVolumeClaim], _ bool) {
	s.followVolume(claim.key)
	s.subscribers.report(manager.Change{Claims: []types.NamespacedName{claim.key}})
}

// followVolume watches the volume that the last state of a claim names.
func (s *Source) followVolume(key api.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := s.claims.objects[key]
	if claim == nil {
		return // no pod uses the claim any more
	}
	volume := ""
	if last, _ := claim.Last(); last != nil {
		volume = last.Spec.VolumeName
	}
	s.setVolumeOf(key, volume)
}

// setVolumeOf makes a claim the user of a volume, and of no other volume. The volume "" is none.
// The caller holds mu.
func (s *Source) setVolumeOf(claim api.Key, volume string) {
	last := s.volumeOf[claim]
	if last == volume {
		return
	}
	if volume != "" {
		use(s, &s.volumes, api.Key{Name: volume}, claim.String())
		s.volumeOf[claim] = volume
	} else {
		delete(s.volumeOf, claim)
	}
	if last != "" && drop(&s.volumes, api.Key{Name: last}, claim.String()) {
		s.setSecretsOf(last, nil)
	}
}

// volumeChanged follows the Secrets of a volume, and reports the volume.
func (s *Source) volumeChanged(volume *watchedObject[*v1.PersistentVolume], _ api.Change[*v1.PersistentVolume], _ bool) {
	s.followSecrets(volume.key.Name)
	s.subscribers.report(manager.Change{Volumes: []string{volume.key.Name}})
}

// lastClaim returns the last state of a claim, and nil if no present pod uses the claim, if it was
// not read yet, or if it does not exist.
func (s *Source) lastClaim(key api.Key) *v1.PersistentVolumeClaim {
	s.mu.Lock()
	watched := s.claims.objects[key]
	s.mu.Unlock()
	if watched == nil {
		return nil
	}
	claim, _ := watched.Last()
	return claim
}

// usedClaims returns the keys of the claims that present pods use.
func (s *Source) usedClaims() map[api.Key]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := make(map[api.Key]bool, len(s.claims.objects))
	for key := range s.claims.objects {
		used[key] = true
	}
	return used
}
