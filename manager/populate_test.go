package manager

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPopulateAgain: what is known of the last time makes no difference, whatever has
// changed since; it is not changed itself; and what is the same is the very same, so
// that nobody looks at it.
func TestPopulateAgain(t *testing.T) {
	host, err := volume.NewHost(t.TempDir())
	require.NoError(t, err)
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	plugins, err := volume.NewVolumePluginMgr(host, plugin)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(3, 3))
	source := NewMemorySource()
	setVolume := func(i int) {
		name := fmt.Sprint("disk-", i)
		pv := plugin.NewSpec(name, "/"+name).PersistentVolume
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: name, UID: "claim"}
		if r.IntN(2) == 0 {
			pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		}
		source.SetVolume(pv)
		source.SetClaim(&v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "claim"},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: name},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		})
	}
	for i := range 4 {
		setVolume(i)
	}
	var last population
	for round := range 2000 {
		switch uid := types.UID(fmt.Sprint("pod-", r.IntN(5))); r.IntN(5) {
		case 0:
			source.RemovePod(uid)
		case 1:
			setVolume(r.IntN(4))
		default:
			source.SetPod(podOfDisks(uid, r))
		}
		pods, err := source.Pods(t.Context())
		require.NoError(t, err)
		anew := populator{source: source, plugins: plugins}
		again := populator{source: source, plugins: plugins, before: last}
		copied := copyOf(last)
		want, got := anew.populate(t.Context(), pods), again.populate(t.Context(), pods)
		require.Equal(t, want, got, "round %d", round)
		require.Equal(t, copied, copyOf(last), "round %d: what was known has changed", round)
		same := populator{source: source, plugins: plugins, before: got}
		for name, v := range same.populate(t.Context(), pods).volumes {
			if len(v.pods) == 1 && len(want.pods) == len(want.places) && isOneName(v.pods[0].value) {
				require.Same(t, got.volumes[name], v)
			}
		}
		last = got
	}
}

// isOneName reports whether the pod has the volume by one name.
func isOneName(pod *desiredPod) bool {
	n := 0
	for _, v := range pod.pod.Spec.Volumes {
		if v.PersistentVolumeClaim.ClaimName == "disk-"+pod.spec.Name()[len("disk-"):] {
			n++
		}
	}
	return n == 1
}

// podOfDisks is a pod with some disks, perhaps one of them by two names.
func podOfDisks(uid types.UID, r *rand.Rand) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid}}
	c := v1.Container{Name: "c"}
	for i := range r.IntN(4) {
		name := fmt.Sprint("v", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("disk-", r.IntN(4)), ReadOnly: r.IntN(4) == 0}}})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name, ReadOnly: r.IntN(2) == 0})
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod
}

// copyOf copies what could be changed.
func copyOf(p population) map[v1.UniqueVolumeName]desiredVolume {
	all := map[v1.UniqueVolumeName]desiredVolume{}
	for name, v := range p.volumes {
		c := *v
		c.pods = nil
		for key, pod := range v.pods.all() {
			other := *pod
			c.pods.set(key, &other)
		}
		all[name] = c
	}
	return all
}
