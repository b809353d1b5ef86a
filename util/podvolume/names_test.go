package podvolume_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volumekit/volumekit/util/podvolume"
)

func TestGetPodVolumeNames(t *testing.T) {
	mounted := func(name string) []v1.VolumeMount { return []v1.VolumeMount{{Name: name}} }
	mapped := func(name string) []v1.VolumeDevice { return []v1.VolumeDevice{{Name: name}} }
	pod := &v1.Pod{}
	pod.Spec.Volumes = []v1.Volume{{Name: "unused"}}
	pod.Spec.InitContainers = []v1.Container{{VolumeMounts: mounted("init"), VolumeDevices: mapped("init-device")}}
	pod.Spec.Containers = []v1.Container{{VolumeMounts: mounted("data")}, {VolumeMounts: mounted("data"), VolumeDevices: mapped("data")}}
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		VolumeMounts: mounted("debug"), VolumeDevices: mapped("debug-device"),
	}}}
	for _, test := range []struct {
		pod             *v1.Pod
		mounts, devices sets.Set[string]
	}{
		{nil, sets.New[string](), sets.New[string]()},
		{&v1.Pod{}, sets.New[string](), sets.New[string]()},
		{pod, sets.New("init", "data", "debug"), sets.New("init-device", "data", "debug-device")},
	} {
		mounts, devices := podvolume.Names(test.pod)
		require.Equal(t, test.mounts, mounts)
		require.Equal(t, test.devices, devices)
	}
}

func TestIsLocalEphemeralVolume(t *testing.T) {
	require.False(t, podvolume.IsLocalEphemeral(nil))
	for name, test := range map[string]struct {
		source v1.VolumeSource
		want   bool
	}{
		"none":       {v1.VolumeSource{}, false},
		"emptyDir":   {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, true},
		"in memory":  {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}, false},
		"huge pages": {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}}, false},
		"configMap":  {v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}, true},
		"gitRepo":    {v1.VolumeSource{GitRepo: &v1.GitRepoVolumeSource{}}, true},
		"secret":     {v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}, false},
		"projected":  {v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}, false},
		"hostPath":   {v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}, false},
		"claim":      {v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}, false},
		"ephemeral":  {v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}, false},
		"CSI":        {v1.VolumeSource{CSI: &v1.CSIVolumeSource{}}, false},
	} {
		require.Equal(t, test.want, podvolume.IsLocalEphemeral(&v1.Volume{VolumeSource: test.source}), name)
	}
}
