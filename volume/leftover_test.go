package volume_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// An unknown field may have any value.
func TestLeftoverScope(t *testing.T) {
	type scope = volume.LeftoverScope
	disk := scope{VolumeName: "disk", Driver: "driver", DevicePath: "/dev/a"}
	for name, test := range map[string]struct {
		scope, other scope
		maybe        bool
	}{
		"nothing is known": {scope{}, disk, true},
		"nor of the other": {disk, scope{}, true},
		"the same":         {disk, disk, true},
		"its name":         {scope{VolumeName: "disk"}, disk, true},
		"another name":     {scope{VolumeName: "other", Driver: "driver"}, disk, false},
		"another driver":   {scope{Driver: "other"}, disk, false},
		"another device":   {scope{Driver: "driver", DevicePath: "/dev/b"}, disk, false},
	} {
		require.Equal(t, test.maybe, test.scope.MayBe(test.other), name)
	}
}

func TestDriver(t *testing.T) {
	pv := func(s v1.PersistentVolumeSource) *volume.Spec {
		return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: s}}, false)
	}
	inline := func(s v1.VolumeSource) *volume.Spec { return volume.NewSpecFromVolume(&v1.Volume{VolumeSource: s}) }
	for _, spec := range []*volume.Spec{
		pv(v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "a"}}),
		pv(v1.PersistentVolumeSource{FlexVolume: &v1.FlexPersistentVolumeSource{Driver: "a"}}),
		inline(v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "a"}}),
		inline(v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: "a"}}),
	} {
		require.Equal(t, "a", spec.Driver())
	}
	for _, spec := range []*volume.Spec{nil, {}, pv(v1.PersistentVolumeSource{}), inline(v1.VolumeSource{})} {
		require.Empty(t, spec.Driver())
	}
}
