package manager

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/populate"
	"github.com/volumekit/volumekit/manager/internal/reading"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestUpdateEqualsNewPopulation: an update of an earlier population, with all pods or only with the changed
// ones, equals a new population. The earlier population is unchanged, and equal parts keep their
// pointers, so that they are not compared again.
func TestUpdateEqualsNewPopulation(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host, plugin)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(3, 3))
	source := NewMemorySource()
	var news reading.PendingChanges
	defer source.Subscribe(func(change Change) { news.Add(change.set()) })()
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
	var last desired.Population
	for round := range 2000 {
		switch uid := types.UID(fmt.Sprint("pod-", r.IntN(5))); r.IntN(5) {
		case 0:
			source.RemovePod(uid)
		case 1:
			setVolume(r.IntN(4))
		default:
			source.SetPod(podWithDisks(uid, r))
		}
		pods, err := source.Pods(t.Context())
		require.NoError(t, err)
		anew := populate.Populator{Claims: source, Plugins: plugins}
		again := populate.Populator{Claims: source, Plugins: plugins, Before: last}
		copied := copyOf(last)
		want, _ := anew.Populate(t.Context(), pods)
		got, d := again.Populate(t.Context(), pods)
		require.Equal(t, contentOf(want), contentOf(got), "round %d", round)
		require.Equal(t, copied, copyOf(last), "round %d: what was known has changed", round)
		requireDelta(t, last, got, d)

		named, changed := map[types.UID]*v1.Pod{}, news.Drain()
		for uid := range changed.Pods {
			if named[uid], err = source.Pod(t.Context(), uid); err != nil {
				require.ErrorIs(t, err, fs.ErrNotExist)
			}
		}
		for about := range changed.Refs {
			for uid := range last.Users.Get(about).Keys() {
				named[uid] = last.Pod(uid)
			}
		}
		few, d := again.Update(t.Context(), named)
		few.Populated = true
		require.Equal(t, contentOf(want), contentOf(few), "round %d, of those that are named", round)
		requireDelta(t, last, few, d)

		same := populate.Populator{Claims: source, Plugins: plugins, Before: got}
		_, d = same.Populate(t.Context(), pods)
		require.Empty(t, d)
		last = got
	}
}

// A content is the content of a population, without shared maps.
type content struct {
	populated bool
	volumes   map[v1.UniqueVolumeName]*desired.Volume
	demands   map[types.UID]*desired.Demand
	keep      []types.UID
	failing   []types.UID
	users     map[reading.Ref][]types.UID
	onePod    map[naming.Storage]v1.UniqueVolumeName
	devices   map[string][]v1.UniqueVolumeName
	remounts  int
}

func contentOf(p desired.Population) content {
	c := content{
		p.Populated, maps.Collect(p.Volumes.All()), maps.Collect(p.Demands.All()), slices.Sorted(p.Kept.Keys()), slices.Sorted(p.Failing.Keys()),
		map[reading.Ref][]types.UID{}, maps.Collect(p.OnePod.All()), maps.Collect(p.ByDevicePath.All()), p.Remounts,
	}
	for about, users := range p.Users.All() {
		c.users[about] = slices.Sorted(users.Keys())
	}
	return c
}

// requireDelta requires that the delta is exactly the difference of two populations.
func requireDelta(t *testing.T, before, after desired.Population, d desired.Delta) {
	t.Helper()
	var want desired.Delta
	for _, uid := range podsOfEither(before, after) {
		if !before.Demands.Get(uid).IsSame(after.Demands.Get(uid)) {
			want.Pods = append(want.Pods, uid)
		}
	}
	for _, name := range slices.Collect(before.Volumes.Keys()) {
		if before.Volumes.Get(name) != after.Volumes.Get(name) {
			want.Volumes = append(want.Volumes, name)
		}
	}
	for name := range after.Volumes.Keys() {
		if before.Volumes.Get(name) == nil {
			want.Volumes = append(want.Volumes, name)
		}
	}
	slices.Sort(want.Volumes)
	require.Equal(t, want.Pods, d.Pods)
	require.Equal(t, want.Volumes, d.Volumes)
}

func podsOfEither(a, b desired.Population) []types.UID {
	all := slices.AppendSeq(slices.Collect(a.Demands.Keys()), b.Demands.Keys())
	slices.Sort(all)
	return slices.Compact(all)
}

// podWithDisks is a pod with some disks, perhaps one of them by two names.
func podWithDisks(uid types.UID, r *rand.Rand) *v1.Pod {
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

// copyOf copies the mutable parts.
func copyOf(p desired.Population) map[v1.UniqueVolumeName]desired.Volume {
	all := map[v1.UniqueVolumeName]desired.Volume{}
	for name, v := range p.Volumes.All() {
		c := *v
		c.Pods = nil
		for key, pod := range v.Pods.All() {
			other := *pod
			c.Pods.Set(key, &other)
		}
		all[name] = c
	}
	return all
}
