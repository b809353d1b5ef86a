package attachment_test

import (
	"fmt"

	"github.com/volumekit/volumekit/controllers/internal/simtest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	volumes = 3
	nodes   = 2
)

// step takes a step at random.
func (s *simulation) step() {
	switch n := s.IntN(100); {
	case n < 30:
		s.createAttachment()
	case n < 50:
		s.deleteAttachment()
	case n < 56:
		s.replaceVolume()
	case n < 59:
		s.changeVolume()
	case n < 64:
		s.changeNode()
	case n < 68:
		s.storage.lose()
	case n < 72:
		s.Restart()
	case n < 79:
		s.Disturb()
	case n < 85:
		s.Recover()
	default:
		s.Pass()
	}
}

func nameOfVolume(i int) string { return fmt.Sprint("pv-", i) }
func nameOfNode(i int) string   { return fmt.Sprint("node-", i) }

// createVolume creates a volume with a handle of its own.
func (s *simulation) createVolume(i int) {
	s.handles++
	handle := fmt.Sprint("disk-", s.handles)
	s.Log("create %s with %s", nameOfVolume(i), handle)
	_, err := s.Cluster.PersistentVolumes().Create(s.Context, newVolume(nameOfVolume(i), handle), metav1.CreateOptions{})
	s.Must(err)
}

// replaceVolume deletes a volume, or creates another one of the name after its end.
func (s *simulation) replaceVolume() {
	i := s.IntN(volumes)
	pv, err := s.Cluster.PersistentVolumes().Get(s.Context, nameOfVolume(i), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		s.createVolume(i)
	case err != nil:
		s.Must(err)
	case pv.DeletionTimestamp == nil:
		s.removeVolume(pv)
	}
}

// removeVolume deletes a volume that no claim is bound to.
func (s *simulation) removeVolume(pv *v1.PersistentVolume) {
	s.Log("delete %s", pv.Name)
	s.Must(s.Cluster.PersistentVolumes().Delete(s.Context, pv.Name, metav1.DeleteOptions{}))
	for {
		found, err := s.Cluster.PersistentVolumes().Get(s.Context, pv.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		s.Must(err)
		unprotect(found)
		if _, err = s.Cluster.PersistentVolumes().Update(s.Context, found, metav1.UpdateOptions{}); s.Tolerate(err) {
			return
		}
	}
}

// changeVolume changes a field of a volume that is an argument of calls.
func (s *simulation) changeVolume() {
	pv, err := s.Cluster.PersistentVolumes().Get(s.Context, nameOfVolume(s.IntN(volumes)), metav1.GetOptions{})
	if !s.Tolerate(err) {
		return
	}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteMany, v1.ReadOnlyMany}
	pv.Spec.AccessModes = modes[s.IntN(3):][:1]
	s.Log("%s is %s", pv.Name, pv.Spec.AccessModes[0])
	_, err = s.Cluster.PersistentVolumes().Update(s.Context, pv, metav1.UpdateOptions{})
	s.Tolerate(err)
}

func (s *simulation) createNode(i int) {
	id := fmt.Sprint("id-", i)
	if s.IntN(4) == 0 {
		id += "-other"
	}
	s.Log("%s has the ID %s", nameOfNode(i), id)
	_, err := s.Cluster.CSINodes().Create(s.Context, newNode(nameOfNode(i), id), metav1.CreateOptions{})
	s.Must(err)
}

// changeNode removes a node, or brings it back.
func (s *simulation) changeNode() {
	i := s.IntN(nodes)
	err := s.Cluster.CSINodes().Delete(s.Context, nameOfNode(i), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		s.createNode(i)
		return
	}
	s.Log("%s leaves", nameOfNode(i))
	s.Must(err)
}

// createAttachment creates a VolumeAttachment, unless one of its name exists.
func (s *simulation) createAttachment() {
	volume, node := s.IntN(volumes), s.IntN(nodes)
	name := fmt.Sprint("a-", volume, "-", node)
	if s.IntN(8) == 0 {
		name = "second-" + name
	}
	_, err := s.Cluster.VolumeAttachments().Create(s.Context, newAttachment(name, nameOfVolume(volume), nameOfNode(node)), metav1.CreateOptions{})
	if s.Tolerate(err) {
		s.Log("create VolumeAttachment %s", name)
	}
}

// deleteAttachment deletes a VolumeAttachment.
func (s *simulation) deleteAttachment() {
	if attachment, ok := simtest.One(s.Rand, s.attachments()); ok {
		s.Log("delete VolumeAttachment %s", attachment.Name)
		s.Tolerate(s.Cluster.VolumeAttachments().Delete(s.Context, attachment.Name, metav1.DeleteOptions{}))
	}
}

// attachments returns all VolumeAttachments.
func (s *simulation) attachments() []storagev1.VolumeAttachment {
	list, err := s.Cluster.VolumeAttachments().List(s.Context, metav1.ListOptions{})
	s.Must(err)
	return list.Items
}
