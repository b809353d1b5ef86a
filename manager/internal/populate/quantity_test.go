package populate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostileQuantities returns quantities whose arithmetic does not end in reasonable time.
func hostileQuantities() map[string]resource.Quantity {
	return map[string]resource.Quantity{
		"large": resource.MustParse("1e99999999"),
		"zero":  resource.MustParse("0e99999999"),
		"fine":  *resource.NewScaledQuantity(1, -99999999),
	}
}

// boundClaims has one claim, which is bound to one disk.
type boundClaims struct {
	claim *v1.PersistentVolumeClaim
	disk  *v1.PersistentVolume
}

func (c boundClaims) GetPersistentVolumeClaim(context.Context, string, string) (*v1.PersistentVolumeClaim, error) {
	return c.claim, nil
}

func (c boundClaims) GetPersistentVolume(context.Context, string) (*v1.PersistentVolume, error) {
	return c.disk, nil
}

// memoryPod returns a pod with a volume in memory, and a container for each memory limit.
func memoryPod(sizeLimit *resource.Quantity, limits ...resource.Quantity) *v1.Pod {
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

// diskOfSize returns a disk that is bound to a claim.
func diskOfSize(capacity resource.Quantity) *v1.PersistentVolume {
	pv := volumetest.NewFakePlugin(volumetest.FakeConfig{}).NewSpec("disk", "/disk").PersistentVolume
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "claim", UID: "claim"}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: capacity}
	return pv
}

// TestHostileQuantities: a hostile quantity fails its own volume, and no other.
func TestHostileQuantities(t *testing.T) {
	one := resource.MustParse("1Gi")
	for name, q := range hostileQuantities() {
		first := memoryPod(nil, one)
		first.Spec.InitContainers = memoryPod(nil, q).Spec.Containers
		for what, pod := range map[string]*v1.Pod{
			"size":            memoryPod(&q, one),
			"limit":           memoryPod(nil, q, one),
			"second limit":    memoryPod(nil, one, q),
			"init container":  first,
			"limit and limit": memoryPod(&one, q, q),
		} {
			requireFails(t, Populator{Plugins: newPlugins(t)}, pod, name+" "+what)
		}
		claims := boundClaims{disk: diskOfSize(q), claim: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim", UID: "claim"},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "disk"},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		}}
		pod := memoryPod(nil, one)
		pod.Namespace = "default"
		pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}
		requireFails(t, Populator{Claims: claims, Plugins: newPlugins(t)}, pod, name+" capacity")
	}
}

// newPlugins returns plugins that support every specification.
func newPlugins(t *testing.T) *volume.VolumePluginMgr {
	t.Helper()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host, volumetest.NewFakePlugin(volumetest.FakeConfig{
		CanSupport: func(*volume.Spec) bool { return true },
		Directory:  func(*volume.Spec) (string, error) { return "/disk", nil },
	}))
	require.NoError(t, err)
	return plugins
}

// requireFails requires that the only volume of the pod is unresolved because of a hostile quantity, and
// that this is detected in reasonable time.
func requireFails(t *testing.T, p Populator, pod *v1.Pod, what string) {
	t.Helper()
	populated := make(chan desired.Population, 1)
	go func() {
		all, _ := p.Populate(t.Context(), []*v1.Pod{pod})
		populated <- all
	}()
	select {
	case all := <-populated:
		err := all.FailureOf(naming.PodVolume{Pod: pod.UID, Name: "v"})
		require.True(t, errors.Is(err, quantity.ErrTooLarge) || errors.Is(err, quantity.ErrTooFine), "%s: %v", what, err)
		require.Zero(t, all.Volumes.Len(), what)
		require.Empty(t, all.Demands.Get(pod.UID).Volumes, what)
		require.Equal(t, 1, all.Kept.Len(), what)
	case <-time.After(30 * time.Second):
		t.Fatal(what + ": the quantity is computed")
	}
}
