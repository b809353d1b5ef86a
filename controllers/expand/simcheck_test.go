package expand_test

import (
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/expand"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// check checks that each capacity is that of the storage or below, and has not become smaller.
func (s *simulation) check() {
	for _, claim := range s.Claims() {
		pv := s.volume(claim.Spec.VolumeName)
		size, files := s.storage.sizes(pv.Name)
		s.checkSize("volume "+pv.Name, pv.UID, pv.Spec.Capacity[v1.ResourceStorage], size)
		s.checkSize(claim.Name, claim.UID, claim.Status.Capacity[v1.ResourceStorage], files)
	}
}

func (s *simulation) checkSize(name string, uid types.UID, shown, real resource.Quantity) {
	if shown.Cmp(real) > 0 {
		s.Fail("%s shows %s, and has %s", name, shown.String(), real.String())
	}
	if before := s.seen[uid]; shown.Cmp(before) < 0 {
		s.Fail("%s shows %s after %s", name, shown.String(), before.String())
	}
	s.seen[uid] = shown
}

// calmDown ends the faults and checks the end of all work.
func (s *simulation) calmDown() {
	s.RecoverAll()
	s.Log("calm")
	s.storage.calm()
	time.Sleep(10 * time.Minute)
	for range 36 {
		s.RestartCrashed()
		synctest.Wait()
		for _, claim := range s.Claims() {
			if s.waitsForNode(&claim) {
				s.finishOnNode(&claim)
			}
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.check()
		if s.HasFailed() {
			return
		}
	}
	for _, claim := range s.Claims() {
		s.checkEnd(&claim)
	}
	s.CheckIdle()
}

// checkEnd checks that the expansion of a claim has ended.
func (s *simulation) checkEnd(claim *v1.PersistentVolumeClaim) {
	pv := s.volume(claim.Spec.VolumeName)
	capacity, shown := claim.Status.Capacity[v1.ResourceStorage], pv.Spec.Capacity[v1.ResourceStorage]
	if capacity.Cmp(claim.Spec.Resources.Requests[v1.ResourceStorage]) < 0 {
		s.Fail("%s requests %s and has %s, %v", claim.Name, claim.Spec.Resources.Requests.Storage(), capacity.String(), claim.Status)
	}
	if shown.Cmp(capacity) != 0 {
		s.Fail("%s shows %s, its claim %s", pv.Name, shown.String(), capacity.String())
	}
	if len(claim.Status.AllocatedResourceStatuses)+len(claim.Status.Conditions) > 0 {
		s.Fail("%s has not ended: %v", claim.Name, claim.Status)
	}
	if _, isMarked := pv.Annotations[expand.CapacityBeforeAnnotation]; isMarked {
		s.Fail("%s has an annotation: %v", pv.Name, pv.Annotations)
	}
}
