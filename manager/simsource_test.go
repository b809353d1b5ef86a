package manager

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/manager/internal/populate"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// simVolumes are the names of the persistent volumes. The letters of a name are the traits of
// the volume:
//   - "a": is attached
//   - "d": has a device mount
//   - "b": is a block device
//   - "o": is for one pod at a time
//   - "r": requires remounts
//   - "x": grows
//   - "s": is a directory of the node that pods share
var simVolumes = []string{"p-0", "d-1", "a-2", "ad-3", "o-4", "ado-5", "r-6", "ad-7", "adx-8", "px-9", "ab-10", "b-11", "s-12"}

// A simSource is a source of pods, claims and volumes that can be made to fail.
type simSource struct {
	pods           map[types.UID]*v1.Pod
	backward       bool             // Pods returns the pods in reverse order
	isFailing      bool             // reads of pods fail
	unreadable     map[string]bool  // claims that cannot be read
	deleting       map[string]bool  // claims that are being deleted
	lives          map[string]int   // the number of the current life of a volume
	sizes          map[string]int64 // of volumes
	volumes        map[string]*v1.PersistentVolume
	publishedSizes map[string]int64 // the sizes of volumes
	claims         map[string]*v1.PersistentVolumeClaim
	status         map[string]int64      // by life, the capacity in the status of the claim
	returned       map[types.UID]*v1.Pod // the pods that the source returned last
	processed      map[types.UID]*v1.Pod // the pods in returned that the manager has processed
	changed        chan struct{}
	hasProcessed   bool
}

func (s *simSource) Pods(context.Context) ([]*v1.Pod, error) {
	if s.isFailing {
		return nil, errSim
	}
	s.returned = maps.Clone(s.pods)
	var pods []*v1.Pod
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		pods = append(pods, s.pods[uid])
	}
	if s.backward {
		slices.Reverse(pods)
	}
	return pods, nil
}

func (s *simSource) Pod(_ context.Context, uid types.UID) (*v1.Pod, error) {
	if s.isFailing {
		return nil, errSim
	}
	pod := s.pods[uid]
	if s.returned = maps.Clone(s.returned); pod == nil {
		delete(s.returned, uid)
		return nil, fs.ErrNotExist
	}
	s.returned[uid] = pod
	return pod, nil
}

// Subscribe is not called: the simulation reports changes itself.
func (s *simSource) Subscribe(func(Change)) (unsubscribe func()) { return func() {} }

func (s *simSource) GetPersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	if s.unreadable[name] {
		return nil, errSim
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	life := simLifeText(name, s.lives[name])
	if needs(name, "x") {
		claim.Status.Capacity = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(s.status[life], resource.BinarySI)}
	}
	if s.deleting[name] {
		claim.DeletionTimestamp, claim.Finalizers = simDeleted, []string{populate.ProtectionFinalizer}
	}
	claim.Spec.VolumeName, claim.Spec.VolumeMode, claim.Status.Phase = name, simMode(life), v1.ClaimBound
	if !reflect.DeepEqual(s.claims[name], claim) {
		s.claims[name] = claim
	}
	return s.claims[name], nil
}

func (s *simSource) GetPersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	pv, size := s.volumes[name], 1+s.sizes[name]
	now := simSpec(simLifeText(name, s.lives[name]), size)
	if pv == nil || simLife(volume.NewSpecFromPersistentVolume(pv, false)) != simLife(now) || s.publishedSizes[name] != size {
		pv = now.PersistentVolume
		s.volumes[name], s.publishedSizes[name] = pv, size
	}
	return pv, nil
}

var simDeleted = &metav1.Time{Time: time.Unix(1, 0)}

func (s *simSource) Changed() <-chan struct{} { return s.changed }

// A simUse is how a pod uses a volume.
type simUse struct {
	volume string
	// readOnly is the pod's reference to the claim, readOnlyMount the container's volume mount.
	readOnly, readOnlyMount bool
	block                   bool // mode of the volume at the creation of the pod
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
		if use.block {
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

// usesIn returns how a pod uses its volumes, by the names of their directories. If a pod has a volume
// under a read-only and a writable name, the read-only name is a view. Another volume with two names is
// read-only if both names are.
func usesIn(pod *v1.Pod) map[string]simUse {
	uses, views := map[string]simUse{}, podvolume.ViewsOf(pod)
	for i, v := range pod.Spec.Volumes {
		claim := v.PersistentVolumeClaim
		use := simUse{volume: claim.ClaimName, readOnly: claim.ReadOnly}
		at := volumeMountIndex(pod, i)
		if use.block = at < 0; !use.block {
			use.readOnlyMount = pod.Spec.Containers[0].VolumeMounts[at].ReadOnly
		}
		dir := use.volume
		if !use.block && views.Has(&v) {
			dir = podvolume.ViewName(pod, &v, volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: dir}}, true))
		}
		if other, ok := uses[dir]; ok {
			use.readOnly = use.readOnly && other.readOnly
			use.readOnlyMount = use.readOnlyMount && other.readOnlyMount
		}
		uses[dir] = use
	}
	return uses
}

// volumeMountIndex returns the index of the container's mount of a volume; less than 0: the container
// uses the volume as a device.
func volumeMountIndex(pod *v1.Pod, volume int) int {
	return slices.IndexFunc(pod.Spec.Containers[0].VolumeMounts, func(m v1.VolumeMount) bool {
		return m.Name == pod.Spec.Volumes[volume].Name
	})
}
