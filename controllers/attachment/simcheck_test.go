package attachment_test

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/attachment"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recordOf returns the target in the annotations of a VolumeAttachment.
func recordOf(a *storagev1.VolumeAttachment) simTarget {
	return simTarget{a.Annotations[attachment.VolumeHandleAnnotation], a.Annotations[attachment.NodeIDAnnotation]}
}

func isPromised(a *storagev1.VolumeAttachment) bool {
	return a.Status.Attached && a.DeletionTimestamp == nil
}

// check checks that each volume that is attached by a status is attached at the storage.
func (s *simulation) check() {
	if s.hasTwins {
		return
	}
	all := s.attachments()
	for i := range all {
		at := recordOf(&all[i])
		if !isPromised(&all[i]) {
			continue
		}
		if !s.storage.has(at) && !s.storage.hasLost(at) {
			s.Fail("%s is attached by its status, and %v not at the storage", all[i].Name, at)
		}
		name := *all[i].Spec.Source.PersistentVolumeName
		pv, err := s.Cluster.PersistentVolumes().Get(s.Context, name, metav1.GetOptions{})
		if err != nil || pv.Spec.CSI.VolumeHandle != at.handle || !slices.Contains(pv.Finalizers, finalizer) {
			s.Fail("%s is attached by its status, and %s has no finalizer: %v", all[i].Name, name, err)
		}
	}
}

// calmDown ends the faults and checks the end of all work.
func (s *simulation) calmDown() {
	s.RecoverAll()
	s.Log("calm")
	s.storage.calm()
	s.rest()
	s.checkAttached()
	if s.HasFailed() {
		return
	}
	s.Log("delete everything")
	for _, a := range s.attachments() {
		s.Tolerate(s.Cluster.VolumeAttachments().Delete(s.Context, a.Name, metav1.DeleteOptions{}))
	}
	for _, pv := range s.Volumes() {
		if pv.DeletionTimestamp == nil {
			s.removeVolume(&pv)
		}
	}
	s.rest()
	s.checkEnd()
	s.CheckIdle()
}

// rest lets an hour pass, which is more than all pauses. An earlier fault may crash a process during a slow call.
func (s *simulation) rest() {
	for range 12 {
		s.RestartCrashed()
		time.Sleep(5 * time.Minute)
	}
	synctest.Wait()
	s.check()
}

// checkAttached checks that each VolumeAttachment with a volume and a node is attached, and that the storage
// has no other volume attached. A volume that the storage has lost is attached again if its object exists.
func (s *simulation) checkAttached() {
	needed := map[simTarget]bool{}
	all := s.attachments()
	for i := range all {
		a := &all[i]
		at := recordOf(a)
		needed[at] = true
		if a.DeletionTimestamp != nil {
			s.Fail("%s has not ended: %v", a.Name, a.Status)
		}
		if a.Status.Attached && !s.storage.hasLost(at) || s.canAttach(a) {
			s.checkPromise(a)
		}
	}
	for _, at := range s.storage.allAttached() {
		if !needed[at] && !s.hasTwins {
			s.Fail("%v is attached without a VolumeAttachment", at)
		}
	}
}

func (s *simulation) checkPromise(a *storagev1.VolumeAttachment) {
	at := recordOf(a)
	if !a.Status.Attached || !s.storage.has(at) {
		s.Fail("%s is not attached: %v, %v", a.Name, at, a.Status)
	}
	if a.Status.AttachError != nil && s.canAttach(a) {
		s.Fail("%s is attached, with an error: %v", a.Name, a.Status)
	}
}

// canAttach reports whether a VolumeAttachment has a volume and a node. One of two controllers may let an attached
// volume end: another one with its name is not attached for the same VolumeAttachment.
func (s *simulation) canAttach(a *storagev1.VolumeAttachment) bool {
	pv, err := s.Cluster.PersistentVolumes().Get(s.Context, *a.Spec.Source.PersistentVolumeName, metav1.GetOptions{})
	if err != nil || pv.DeletionTimestamp != nil || s.hasTwins && a.Status.Attached && pv.Spec.CSI.VolumeHandle != recordOf(a).handle {
		return false
	}
	_, err = s.Cluster.CSINodes().Get(s.Context, a.Spec.NodeName, metav1.GetOptions{})
	return err == nil || !apierrors.IsNotFound(err)
}

// checkEnd checks that nothing is left.
func (s *simulation) checkEnd() {
	for _, a := range s.attachments() {
		s.Fail("%s is left: %v, %v", a.Name, a.Finalizers, a.Status)
	}
	for _, pv := range s.Volumes() {
		s.Fail("%s is left: %v", pv.Name, pv.Finalizers)
	}
	for _, at := range s.storage.allAttached() {
		if !s.hasTwins {
			s.Fail("%v is attached for ever", at)
		}
	}
}
