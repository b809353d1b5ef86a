package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// simVolumes are the persistent volumes, by what they need: "a" to be attached, "d" a
// mount for all pods, "b" is a device, "o" for one pod only; "r" follows something else,
// "x" grows, "s" is a directory that pods share.
var simVolumes = []string{"p-0", "d-1", "a-2", "ad-3", "o-4", "ado-5", "r-6", "ad-7", "adx-8", "px-9", "ab-10", "b-11", "s-12"}

// A simSource tells of pods, or fails to.
type simSource struct {
	pods     map[types.UID]*v1.Pod
	backward bool             // it tells the last first
	fails    bool             // to tell of pods
	failing  map[string]bool  // claims that cannot be read
	lives    map[string]int   // which life of a volume is the present one
	sizes    map[string]int64 // of volumes
	volumes  map[string]*v1.PersistentVolume
	said     map[string]int64      // their sizes
	asked    map[types.UID]*v1.Pod // what it said last
	told     map[types.UID]*v1.Pod // what has been heard of that
	changed  chan struct{}
	toldOnce bool
}

func (s *simSource) Pods(context.Context) ([]*v1.Pod, error) {
	if s.fails {
		return nil, errSim
	}
	s.asked = maps.Clone(s.pods)
	var pods []*v1.Pod
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		pods = append(pods, s.pods[uid])
	}
	if s.backward {
		slices.Reverse(pods)
	}
	return pods, nil
}

func (s *simSource) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	if s.failing[name] {
		return nil, errSim
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	claim.Spec.VolumeName, claim.Spec.VolumeMode, claim.Status.Phase = name, simMode(name), v1.ClaimBound
	return claim, nil
}

func (s *simSource) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	pv, size := s.volumes[name], 1+s.sizes[name]
	if now := simSpec(name, s.lives[name], size).PersistentVolume; pv == nil || pv.UID != now.UID || s.said[name] != size {
		pv = now
		s.volumes[name], s.said[name] = pv, size
	}
	return pv, nil
}

func (s *simSource) Changed() <-chan struct{} { return s.changed }

// A simUse is how a pod uses a volume.
type simUse struct {
	volume string
	// readOnly is what the pod asks of the claim, readOnlyMount what its container
	// says.
	readOnly, readOnlyMount bool
}

func (u simUse) String() string {
	if u.readOnly || u.readOnlyMount {
		return u.volume + ":ro"
	}
	return u.volume
}

func simPod(uid string, uses ...simUse) *v1.Pod {
	name, _, _ := strings.Cut(uid, ".")
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}}
	c := v1.Container{Name: "c"}
	for i, use := range uses {
		name := fmt.Sprintf("v%d", i)
		if needs(use.volume, "b") {
			c.VolumeDevices = append(c.VolumeDevices, v1.VolumeDevice{Name: name})
		} else {
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, ReadOnly: use.readOnlyMount})
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: use.volume, ReadOnly: use.readOnly}}})
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod
}

// usesIn returns how a pod uses its volumes: one that it has by two names is read-only if
// it is by both.
func usesIn(pod *v1.Pod) map[string]simUse {
	uses := map[string]simUse{}
	for i, v := range pod.Spec.Volumes {
		claim := v.PersistentVolumeClaim
		use := simUse{volume: claim.ClaimName, readOnly: claim.ReadOnly}
		if !needs(use.volume, "b") {
			use.readOnlyMount = pod.Spec.Containers[0].VolumeMounts[mountIndex(pod, i)].ReadOnly
		}
		if other, ok := uses[use.volume]; ok {
			use.readOnlyMount = use.readOnlyMount && other.readOnlyMount
		}
		uses[use.volume] = use
	}
	return uses
}

// mountIndex returns which of the container's mounts is of the pod's volume.
func mountIndex(pod *v1.Pod, volume int) int {
	return slices.IndexFunc(pod.Spec.Containers[0].VolumeMounts, func(m v1.VolumeMount) bool {
		return m.Name == pod.Spec.Volumes[volume].Name
	})
}
