package podvolume

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestMounterArgs(t *testing.T) {
	policy := v1.FSGroupChangeOnRootMismatch
	id := func(n int64) *int64 { return &n }
	runsAs := func(users ...*int64) (containers []v1.Container) {
		for _, user := range users {
			c := v1.Container{VolumeMounts: []v1.VolumeMount{{Name: "v"}}}
			if user != nil {
				c.SecurityContext = &v1.SecurityContext{RunAsUser: user}
			}
			containers = append(containers, c)
		}
		return containers
	}
	group := &v1.PodSecurityContext{FSGroup: id(2000), FSGroupChangePolicy: &policy, RunAsUser: id(1000)}
	memory := func(limit string) *v1.EmptyDirVolumeSource {
		q := resource.MustParse(limit)
		return &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &q}
	}
	for name, test := range map[string]struct {
		spec  v1.PodSpec
		empty *v1.EmptyDirVolumeSource
		want  volume.MounterArgs
	}{
		"nothing":           {spec: v1.PodSpec{Containers: runsAs(nil)}},
		"the pod's":         {spec: v1.PodSpec{SecurityContext: group, Containers: runsAs(nil, nil)}, want: volume.MounterArgs{FsUser: id(1000), FsGroup: id(2000), FSGroupChangePolicy: &policy}},
		"a container's own": {spec: v1.PodSpec{SecurityContext: group, Containers: runsAs(id(7))}, want: volume.MounterArgs{FsUser: id(7), FsGroup: id(2000), FSGroupChangePolicy: &policy}},
		"two users":         {spec: v1.PodSpec{Containers: runsAs(id(7), id(8))}},
		"two of one":        {spec: v1.PodSpec{Containers: runsAs(id(0)), InitContainers: runsAs(id(0))}, want: volume.MounterArgs{FsUser: id(0)}},
		"another at first":  {spec: v1.PodSpec{Containers: runsAs(id(7)), InitContainers: runsAs(id(8))}},
		"one by no name":    {spec: v1.PodSpec{Containers: runsAs(id(7), nil)}},
		"read":              {spec: v1.PodSpec{Containers: []v1.Container{{VolumeMounts: []v1.VolumeMount{{Name: "v", ReadOnly: true}}}}}, want: volume.MounterArgs{ReadOnly: true}},
		"in memory":         {spec: podWith(limits{"memory": "1Gi"}).Spec, empty: memory("1Mi"), want: volume.MounterArgs{DesiredSize: resource.NewQuantity(1<<20, resource.BinarySI)}},
		"of less memory":    {spec: podWith(limits{"memory": "1Ki"}).Spec, empty: memory("1Mi"), want: volume.MounterArgs{DesiredSize: resource.NewQuantity(1<<10, resource.BinarySI)}},
		"on disk":           {spec: podWith(limits{"memory": "1Ki"}).Spec, empty: &v1.EmptyDirVolumeSource{SizeLimit: memory("1Mi").SizeLimit}},
	} {
		pod := &v1.Pod{Spec: test.spec}
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: test.empty}}}
		before := pod.DeepCopy()
		got, err := MounterArgs(pod, &pod.Spec.Volumes[0])
		require.NoError(t, err, name)
		require.Equal(t, test.want, got, name)
		require.Equal(t, before, pod, name)
		if got.FsGroup != nil {
			require.NotSame(t, group.FSGroup, got.FsGroup, name)
		}
	}
	for _, none := range []struct {
		pod *v1.Pod
		of  *v1.Volume
	}{{nil, &v1.Volume{}}, {&v1.Pod{}, nil}} {
		got, err := MounterArgs(none.pod, none.of)
		require.NoError(t, err)
		require.Zero(t, got)
	}
	_, err := MounterArgs(podWith(), &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: memory("1e99999999")}})
	require.ErrorIs(t, err, quantity.ErrTooLarge)
	require.ErrorContains(t, err, "emptyDir.sizeLimit")
}

// TestRefuseSizeAndLabel: each of the two arguments is refused by its name.
func TestRefuseSizeAndLabel(t *testing.T) {
	size := resource.MustParse("1Gi")
	require.NoError(t, RefuseSizeAndLabel("a share", volume.MounterArgs{ReadOnly: true}))
	for name, args := range map[string]volume.MounterArgs{"DesiredSize": {DesiredSize: &size}, "SELinuxLabel": {SELinuxLabel: "a"}} {
		err := RefuseSizeAndLabel("a share", args)
		require.ErrorIs(t, err, volume.ErrNotSupported)
		require.EqualError(t, err, "MounterArgs."+name+" for a share: not supported")
	}
}
