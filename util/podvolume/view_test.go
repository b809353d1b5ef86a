package podvolume_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func claims(uses ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for i, use := range uses {
		claim, readOnly := strings.CutSuffix(use, ":ro")
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i), VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: readOnly},
		}})
	}
	return pod
}

func TestViewName(t *testing.T) {
	block := v1.PersistentVolumeBlock
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	raw := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{VolumeMode: &block}}
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want string // of the first volume
	}{
		"once":           {claims("a"), "pv"},
		"once to read":   {claims("a:ro"), "pv"},
		"view":           {claims("a:ro", "a"), "pv~r"},
		"beside a view":  {claims("a", "a:ro"), "pv"},
		"twice to write": {claims("a", "a"), "pv"},
		"twice to read":  {claims("a:ro", "a:ro"), "pv"},
		"another claim":  {claims("a:ro", "b"), "pv"},
	} {
		got := podvolume.ViewName(test.pod, &test.pod.Spec.Volumes[0], volume.NewSpecFromPersistentVolume(pv, true))
		require.Equal(t, test.want, got, name)
		require.Equal(t, test.want != "pv", podvolume.IsView(got))
		require.Equal(t, "pv", podvolume.ViewedName(got))
		require.Equal(t, "pv", podvolume.ViewName(test.pod, &test.pod.Spec.Volumes[0], volume.NewSpecFromPersistentVolume(raw, true)))
	}
	made := claims("p-v1:ro", "x")
	made.Spec.Volumes[1].VolumeSource = v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
	require.Equal(t, "pv~r", podvolume.ViewName(made, &made.Spec.Volumes[0], volume.NewSpecFromPersistentVolume(pv, true)))
	require.Equal(t, "pv", podvolume.ViewName(nil, nil, volume.NewSpecFromPersistentVolume(pv, true)))
	require.Empty(t, podvolume.ViewName(claims("a:ro", "a"), &v1.Volume{}, nil))
}

// TestViewsOfDevice: a device is mapped by one specification for all names of its claim, to be
// written to if one of them writes.
func TestViewsOfDevice(t *testing.T) {
	block := v1.PersistentVolumeBlock
	raw := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{VolumeMode: &block}}
	for name, test := range map[string]struct {
		pod                    *v1.Pod
		pv                     *v1.PersistentVolume
		wantView, wantReadOnly bool // of the first volume
	}{
		"once to read":    {claims("a:ro"), raw, false, true},
		"twice to read":   {claims("a:ro", "a:ro"), raw, false, true},
		"once to write":   {claims("a"), raw, false, false},
		"to read, first":  {claims("a:ro", "a"), raw, true, false},
		"to write, first": {claims("a", "a:ro"), raw, false, false},
		"another claim":   {claims("a:ro", "b"), raw, false, true},
		"a file system":   {claims("a:ro", "a"), &v1.PersistentVolume{}, true, true},
	} {
		v := &test.pod.Spec.Volumes[0]
		spec := volume.NewSpecFromPersistentVolume(test.pv, v.PersistentVolumeClaim.ReadOnly)
		views := podvolume.ViewsOf(test.pod)
		require.Equal(t, test.wantView, views.Has(v), name)
		require.Equal(t, test.wantReadOnly, views.Spec(v, spec).ReadOnly, name)
		require.Same(t, test.pv, views.Spec(v, spec).PersistentVolume, name)
	}
	require.False(t, podvolume.ViewsOf(nil).Has(nil))
	require.False(t, podvolume.Views{}.Has(&claims("a:ro").Spec.Volumes[0]))
}

// TestViewsOnce: a pod is looked at once for all of its volumes.
func TestViewsOnce(t *testing.T) {
	pod := claims("a:ro", "a", "b")
	views := podvolume.ViewsOf(pod)
	spec := volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, true)
	pod.Spec.Volumes = pod.Spec.Volumes[:1]
	require.Equal(t, "pv~r", views.DirectoryName(&pod.Spec.Volumes[0], spec))
	require.Zero(t, testing.AllocsPerRun(10, func() { lastViews = podvolume.ViewsOf(claimless) }))
}

var (
	claimless = claims("a", "b")
	lastViews podvolume.Views
)

// A pathMounter notes where it sets volumes up.
type pathMounter struct {
	volume.Mounter
	at *string
}

func (m pathMounter) SetUpAt(_ context.Context, dir string, _ volume.MounterArgs) error {
	*m.at = dir
	return nil
}

func ExampleMounterAt() {
	pod := claims("data:ro", "data")
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name := podvolume.ViewName(pod, v, volume.NewSpecFromPersistentVolume(pv, v.PersistentVolumeClaim.ReadOnly))
		var at string
		mounter := podvolume.MounterAt(pathMounter{at: &at}, "/pods/uid/volumes/example.com~disk/"+name)
		if err := mounter.SetUp(context.Background(), volume.MounterArgs{}); err != nil {
			fmt.Println(err)
		}
		fmt.Println(v.Name, "is at", at)
	}
	// Output:
	// v0 is at /pods/uid/volumes/example.com~disk/pv-1~r
	// v1 is at /pods/uid/volumes/example.com~disk/pv-1
}
