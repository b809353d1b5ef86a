package manager

import (
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

var (
	podA       = naming.PodKey{Pod: "a", Name: "vol"}
	podB       = naming.PodKey{Pod: "b", Name: "vol"}
	diskTraits = naming.Traits{Attachable: true, DeviceMountable: true}
)

const vol = v1.UniqueVolumeName("plugin/vol")

// desiredVolume returns a volume that the pods need.
func desiredVolume(t naming.Traits, keys ...naming.PodKey) *desired.Volume {
	v := &desired.Volume{Traits: t}
	for _, key := range keys {
		v.Pods.Set(key, &desired.Pod{Spec: &volume.Spec{}})
	}
	return v
}

// actualVolume returns a volume in the given states.
func actualVolume(t naming.Traits, attached, device actual.State, pods map[naming.PodKey]actual.State) *actual.Volume {
	v := &actual.Volume{Traits: t, Attached: attached, Device: device}
	for key, s := range pods {
		v.Pods.Set(key, &actual.Pod{State: s})
	}
	return v
}
