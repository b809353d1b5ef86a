package manager

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostileQuantities take for ever to compute with.
func hostileQuantities() map[string]resource.Quantity {
	return map[string]resource.Quantity{
		"large": resource.MustParse("1e99999999"),
		"zero":  resource.MustParse("0e99999999"),
		"fine":  *resource.NewScaledQuantity(1, -99999999),
	}
}

// inMemory is a pod with a volume in memory.
func inMemory(sizeLimit *resource.Quantity, limits ...resource.Quantity) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "hostile"}}
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
		EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: sizeLimit}}}}
	for _, limit := range limits {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}},
			Resources:    v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: limit}},
		})
	}
	return pod
}

func onDisk(capacity resource.Quantity) *v1.PersistentVolume {
	pv := volumetest.NewFakePlugin(volumetest.FakeConfig{}).NewSpec("disk", "/disk").PersistentVolume
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "claim", UID: "claim"}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: capacity}
	return pv
}

// Hostile quantities are the failure of the volume that they are of, and of no other.
func TestHostileQuantities(t *testing.T) {
	one := resource.MustParse("1Gi")
	for name, q := range hostileQuantities() {
		first := inMemory(nil, one)
		first.Spec.InitContainers = inMemory(nil, q).Spec.Containers
		for what, pod := range map[string]*v1.Pod{
			"size":            inMemory(&q, one),
			"limit":           inMemory(nil, q, one),
			"second limit":    inMemory(nil, one, q),
			"init container":  first,
			"limit and limit": inMemory(&one, q, q),
		} {
			requireFails(t, populator{plugins: anyEmptyDir(t)}, pod, name+" "+what)
		}
		source := NewMemorySource()
		source.SetVolume(onDisk(q))
		source.SetClaim(&v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim", UID: "claim"},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "disk"},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		})
		pod := inMemory(nil, one)
		pod.Namespace = "default"
		pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}
		requireFails(t, populator{source: source, plugins: anyEmptyDir(t)}, pod, name+" capacity")
	}
}

// anyEmptyDir are plugins that take all there is.
func anyEmptyDir(t *testing.T) *volume.VolumePluginMgr {
	t.Helper()
	host, err := volume.NewHost(t.TempDir())
	require.NoError(t, err)
	plugins, err := volume.NewVolumePluginMgr(host, volumetest.NewFakePlugin(volumetest.FakeConfig{
		CanSupport: func(*volume.Spec) bool { return true },
		Directory:  func(*volume.Spec) (string, error) { return "/disk", nil },
	}))
	require.NoError(t, err)
	return plugins
}

func requireFails(t *testing.T, p populator, pod *v1.Pod, what string) {
	t.Helper()
	populated := make(chan population, 1)
	go func() { populated <- p.populate(t.Context(), []*v1.Pod{pod}) }()
	select {
	case all := <-populated:
		err := all.failed[podVolume{pod.UID, "v"}]
		require.Condition(t, func() bool { return hostile(err) }, "%s: %v", what, err)
		require.Empty(t, all.volumes, what)
		require.Empty(t, all.places, what)
		require.True(t, all.keep[pod.UID], what)
	case <-time.After(30 * time.Second):
		t.Fatal(what + ": is computed")
	}
}

func hostile(err error) bool {
	return errors.Is(err, quantity.ErrTooLarge) || errors.Is(err, quantity.ErrTooFine)
}
