package attach_test

import (
	"encoding/json"
	"slices"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/attach"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// check checks the deletions of VolumeAttachments since the last check.
func (s *simulation) check() {
	list, err := s.Cluster.VolumeAttachments().List(s.Context, metav1.ListOptions{})
	s.Must(err)
	for i := range list.Items {
		s.checkDeletion(&list.Items[i])
	}
}

// checkDeletion checks the deletion of a VolumeAttachment, once.
func (s *simulation) checkDeletion(va *storagev1.VolumeAttachment) {
	if va.DeletionTimestamp != nil && !s.deleted[va.UID] {
		s.deleted[va.UID] = true
		s.checkDetach(*va.Spec.Source.PersistentVolumeName, va.Spec.NodeName, va.DeletionTimestamp.Time)
	}
}

// checkDetach checks a detach that begins at a time.
func (s *simulation) checkDetach(disk, node string, at time.Time) {
	if !s.hasTwins && s.nodeOf(node).keeps(disk, at) {
		s.Fail("%s is detached from %s, which has mounted it", disk, node)
	}
}

// calmDown ends the faults and checks the end of all work.
func (s *simulation) calmDown() {
	s.RecoverAll()
	s.Log("calm")
	s.storage.calm()
	s.calmNodes()
	for range 40 {
		s.RestartCrashed()
		synctest.Wait()
		s.check()
		for _, n := range s.nodes {
			s.work(n)
		}
		synctest.Wait()
		s.answer()
		synctest.Wait()
		if s.HasFailed() {
			return
		}
		time.Sleep(5 * time.Minute)
	}
	synctest.Wait()
	for _, d := range s.disks {
		s.checkEnd(d)
	}
	s.CheckIdle()
}

// calmNodes connects the nodes. One that is down is removed with its pods, or starts again.
func (s *simulation) calmNodes() {
	for _, n := range s.nodes {
		n.change(func() { n.isCut, n.isLying = false, false })
		s.setTaint(n, false)
		if n.isUp || s.IntN(2) == 0 {
			n.change(func() { n.isUp = true })
			continue
		}
		s.deleteNode(n)
		for _, pod := range s.Pods() {
			if pod.Spec.NodeName == n.name {
				s.deletePod(&pod)
			}
		}
	}
}

// checkEnd checks that a disk is where its pods are.
func (s *simulation) checkEnd(d diskSpec) {
	var wanted []string
	for _, n := range s.nodes {
		if s.desired(n.name)[d.name] {
			wanted = append(wanted, n.name)
		}
	}
	is := s.storage.nodesOf(d.name)
	want := wanted
	if !d.isShared && len(wanted) > 1 {
		want = is
		if len(is) != 1 || !slices.Contains(wanted, is[0]) {
			s.Fail("%s is on %v, wanted on one of %v", d.name, is, wanted)
		}
	}
	if !slices.Equal(is, want) {
		s.Fail("%s is on %v, wanted on %v", d.name, is, want)
	}
	reported := s.reported(d)
	if s.hasTwins && d.isPlugin { // one controller may have reported it again after its failed detach, see the package doc
		reported = slices.DeleteFunc(reported, func(n string) bool { return slices.Contains(wanted, n) && !slices.Contains(want, n) })
	}
	s.checkSame(d, "reported", want, reported)
	if d.isPlugin {
		s.checkSame(d, "held", want, s.held(d))
	} else {
		s.checkSame(d, "attachments", want, s.attachments(d))
	}
	for _, n := range s.nodes {
		s.checkMounted(n, d, slices.Contains(want, n.name))
	}
}

// checkMounted checks the end of a disk on a node. A pod of an exclusive disk that another node has keeps a
// mount from before a lie or a forced detach. One of two controllers may have detached a disk in use.
func (s *simulation) checkMounted(n *simNode, d diskSpec, isWanted bool) {
	isLeft := n.mounted[d.name] && !isWanted && s.desired(n.name)[d.name]
	if !s.hasTwins && !isLeft && n.mounted[d.name] != isWanted {
		s.Fail("%s on %s: mounted is %v", d.name, n.name, n.mounted[d.name])
	}
}

func (s *simulation) checkSame(d diskSpec, what string, want, is []string) {
	slices.Sort(is)
	if !slices.Equal(want, is) {
		s.Fail("%s: %s on %v, wanted on %v", d.name, what, is, want)
	}
}

// reported returns the nodes that report a disk as attached.
func (s *simulation) reported(d diskSpec) (names []string) {
	list, err := s.Cluster.Nodes().List(s.Context, metav1.ListOptions{})
	s.Must(err)
	for _, node := range list.Items {
		if slices.ContainsFunc(node.Status.VolumesAttached, func(a v1.AttachedVolume) bool { return a.Name == d.id() }) {
			names = append(names, node.Name)
		}
	}
	return names
}

// attachments returns the nodes of the VolumeAttachments of a disk.
func (s *simulation) attachments(d diskSpec) (names []string) {
	list, err := s.Cluster.VolumeAttachments().List(s.Context, metav1.ListOptions{})
	s.Must(err)
	for _, va := range slices.DeleteFunc(list.Items, func(va storagev1.VolumeAttachment) bool {
		return *va.Spec.Source.PersistentVolumeName != d.name
	}) {
		names = append(names, va.Spec.NodeName)
	}
	return names
}

// held returns the nodes that the holder of a disk names.
func (s *simulation) held(d diskSpec) (names []string) {
	pv, err := s.Cluster.PersistentVolumes().Get(s.Context, d.name, metav1.GetOptions{})
	s.Must(err)
	var holder struct{ Nodes []string }
	if value, ok := pv.Annotations[attach.HolderAnnotation]; ok {
		s.Must(json.Unmarshal([]byte(value), &holder))
	}
	return holder.Nodes
}
