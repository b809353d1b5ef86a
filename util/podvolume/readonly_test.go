package podvolume

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestReadOnlyInPod(t *testing.T) {
	ro := v1.VolumeMount{Name: "data", ReadOnly: true}
	rw := v1.VolumeMount{Name: "data"}
	other := v1.VolumeMount{Name: "other"}
	with := func(mounts ...v1.VolumeMount) []v1.Container { return []v1.Container{{VolumeMounts: mounts}} }
	claim := func(readOnly bool) v1.VolumeSource {
		return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ReadOnly: readOnly}}
	}
	device := []v1.Container{{VolumeDevices: []v1.VolumeDevice{{Name: "data"}}}}
	ephemeral := []v1.EphemeralContainer{{
		EphemeralContainerCommon: v1.EphemeralContainerCommon{VolumeMounts: []v1.VolumeMount{rw}},
	}}
	for name, test := range map[string]struct {
		source v1.VolumeSource
		spec   v1.PodSpec
		want   bool
	}{
		"nobody mounts it":        {spec: v1.PodSpec{}},
		"claim read-only":         {claim(true), v1.PodSpec{Containers: with(rw)}, true},
		"claim, nobody mounts it": {claim(true), v1.PodSpec{}, true},
		"claim writable":          {claim(false), v1.PodSpec{Containers: with(rw)}, false},
		"one reads":               {spec: v1.PodSpec{Containers: with(ro, other)}, want: true},
		"one writes":              {spec: v1.PodSpec{Containers: with(rw)}},
		"twice in a container":    {spec: v1.PodSpec{Containers: with(ro, rw)}},
		"all read":                {spec: v1.PodSpec{InitContainers: with(ro), Containers: with(ro)}, want: true},
		"init writes":             {spec: v1.PodSpec{InitContainers: with(rw), Containers: with(ro)}},
		"ephemeral writes":        {spec: v1.PodSpec{Containers: with(ro), EphemeralContainers: ephemeral}},
		"a device is written to":  {spec: v1.PodSpec{InitContainers: device, Containers: with(ro)}},
		"only others are mounted": {spec: v1.PodSpec{Containers: with(other)}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: test.spec}
			pod.Spec.Volumes = []v1.Volume{{Name: "other"}, {Name: "data", VolumeSource: test.source}}
			require.Equal(t, test.want, ReadOnly(pod, "data"))
		})
	}
	require.False(t, ReadOnly(nil, "data"))
	require.False(t, ReadOnly(&v1.Pod{Spec: v1.PodSpec{Containers: with(ro)}}, "data"), "the pod has no such volume")
}
