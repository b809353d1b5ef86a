package attach_test

import (
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/simtest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step takes a step at random.
func (s *simulation) step() {
	n := s.nodes[s.IntN(len(s.nodes))]
	switch k := s.IntN(100); {
	case k < 15:
		s.addPod()
	case k < 25:
		s.endPod()
	case k < 30:
		s.movePod()
	case k < 50:
		s.work(n)
	case k < 62:
		s.answer()
	case k < 74:
		s.disturbNode(n)
	case k < 76:
		s.replaceVolume()
	case k < 79:
		s.Restart()
	case k < 84:
		s.Disturb()
	case k < 91:
		s.Recover()
	default:
		s.Pass()
	}
}

// createAll creates the nodes, and the claims with their volumes.
func (s *simulation) createAll() {
	for i := range 3 {
		n := &simNode{name: fmt.Sprint("node-", i), isUp: true, isReady: true, mounted: map[string]bool{}, faked: map[string]bool{}, doubtful: map[string]bool{}}
		s.nodes = append(s.nodes, n)
		_, err := s.Cluster.Nodes().Create(s.Context, newNode(n.name, v1.ConditionTrue), metav1.CreateOptions{})
		s.Must(err)
	}
	for _, d := range s.disks {
		s.Must(createPair(s.Context, s.Cluster, d))
	}
}

// addPod creates a pod that uses a disk on a node.
func (s *simulation) addPod() {
	if len(s.Pods()) < 6 {
		s.addPodWith(s.disks[s.IntN(len(s.disks))].name)
	}
}

func (s *simulation) addPodWith(disk string) {
	node := s.nodes[s.IntN(len(s.nodes))].name
	s.pods++
	pod := newPod(fmt.Sprint("pod-", s.pods), node, disk)
	s.Log("%s uses %s on %s", pod.Name, disk, node)
	_, err := s.Cluster.Pods(namespace).Create(s.Context, pod, metav1.CreateOptions{})
	s.Must(err)
}

// endPod lets a pod succeed, or deletes it at once.
func (s *simulation) endPod() {
	pod, ok := simtest.One(s.Rand, s.Pods())
	if !ok {
		return
	}
	if s.IntN(3) == 0 {
		s.Log("%s succeeds", pod.Name)
		pod.Status.Phase = v1.PodSucceeded
		_, err := s.Cluster.Pods(namespace).UpdateStatus(s.Context, &pod, metav1.UpdateOptions{})
		s.Tolerate(err)
		return
	}
	s.deletePod(&pod)
}

func (s *simulation) deletePod(pod *v1.Pod) {
	s.Log("%s is deleted", pod.Name)
	none := int64(0)
	s.Tolerate(s.Cluster.Pods(namespace).Delete(s.Context, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}))
}

// movePod replaces a pod by another one for the same disk.
func (s *simulation) movePod() {
	pod, ok := simtest.One(s.Rand, s.Pods())
	if !ok {
		return
	}
	s.deletePod(&pod)
	s.addPodWith(pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
}

// answer lets the driver work.
func (s *simulation) answer() { s.Tolerate(s.driver.answer(s.Context)) }

// disturbNode changes the state of a node.
func (s *simulation) disturbNode(n *simNode) {
	switch s.IntN(9) {
	case 0:
		s.Log("%s loses its connection", n.name)
		n.change(func() { n.isCut = true })
	case 1:
		s.Log("%s has a connection", n.name)
		n.change(func() { n.isCut = false })
	case 2:
		s.Log("%s dies", n.name)
		n.change(func() { n.isUp, n.mounted = false, map[string]bool{} })
	case 3:
		s.Log("%s starts", n.name)
		n.change(func() { n.isUp = true })
	case 4:
		if !n.isUp || n.isCut {
			s.markNotReady(n)
		}
	case 5:
		s.setTaint(n, !n.isTainted && s.IntN(2) == 0)
	case 6:
		s.deleteNode(n)
	case 7:
		s.Log("%s lies", n.name)
		n.change(func() { n.isLying = true })
		s.work(n)
	case 8:
		n.change(func() { n.isLying = false })
		s.work(n)
	}
}

// replaceVolume deletes a volume object and creates it again, for the same claim. With two controllers, the
// new one has the annotations of the old one: the rule for two depends on the HolderAnnotation.
func (s *simulation) replaceVolume() {
	d := s.disks[s.IntN(2)]
	volumes := s.Cluster.PersistentVolumes()
	pv, err := volumes.Get(s.Context, d.name, metav1.GetOptions{})
	s.Must(err)
	pv.Finalizers = nil
	if pv, err = volumes.Update(s.Context, pv, metav1.UpdateOptions{}); !s.Tolerate(err) {
		return
	}
	read := metav1.DeleteOptions{Preconditions: metav1.NewRVDeletionPrecondition(pv.ResourceVersion).Preconditions}
	if !s.Tolerate(volumes.Delete(s.Context, d.name, read)) {
		return
	}
	s.Log("volume %s is deleted and created again", d.name)
	time.Sleep(time.Duration(s.IntN(2)*s.IntN(100)) * time.Second)
	created := d.object(pv.Spec.ClaimRef.UID)
	if s.hasTwins {
		created.Annotations = pv.Annotations
	}
	_, err = volumes.Create(s.Context, created, metav1.CreateOptions{})
	s.Must(err)
}
