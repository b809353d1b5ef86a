package planning

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// TestWaitReason: a pod that has to wait has a reason, and no operation brings the volume up in it.
func TestWaitReason(t *testing.T) {
	present := map[naming.PodKey]actual.State{podA: actual.Present}
	mounted := func() *actual.Volume { return actualVolume(diskTraits, actual.Present, actual.Present, nil) }
	for name, test := range map[string]struct {
		want   *desired.Volume
		have   *actual.Volume
		other  *actual.Volume // another volume
		change func(want *desired.Volume, have *actual.Volume, s *Schedule)
		reason error
	}{
		"none":      {want: desiredVolume(diskTraits, podA), have: mounted()},
		"up":        {want: desiredVolume(diskTraits, podA), have: actualVolume(diskTraits, actual.Present, actual.Present, present)},
		"undesired": {want: desiredVolume(diskTraits, podB), have: mounted()},
		"recreated": {want: desiredVolume(diskTraits, podA), have: mounted(), reason: errRecreated,
			change: func(want *desired.Volume, have *actual.Volume, _ *Schedule) {
				want.Spec, have.Spec = specWithUID("one", v1.PersistentVolumeFilesystem), specWithUID("two", v1.PersistentVolumeFilesystem)
			}},
		"directory of another volume": {want: desiredVolume(naming.Traits{}, podA), have: &actual.Volume{}, reason: ErrOccupied,
			other: actualVolume(naming.Traits{}, actual.Absent, actual.Absent, present)},
		"device mount path of another volume": {want: desiredVolume(naming.Traits{DeviceMountable: true}, podA), have: &actual.Volume{}, reason: ErrOccupied,
			other: &actual.Volume{Device: actual.Uncertain, DeviceMountPath: "/mnt"},
			change: func(want *desired.Volume, _ *actual.Volume, _ *Schedule) {
				want.DeviceMountPath = "/mnt"
			}},
		"for one pod": {want: desiredVolume(naming.Traits{OnePod: true}, podA), reason: ErrOnePod,
			have: actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podB: actual.Present})},
		"for readers": {want: desiredVolume(diskTraits, podA), have: mounted(), reason: operation.ErrMountedForReaders,
			change: func(_ *desired.Volume, have *actual.Volume, _ *Schedule) {
				have.DeviceReadOnly, have.DeviceStaysReadOnly = true, true
			}},
		"unreported": {want: desiredVolume(diskTraits, podA), have: &actual.Volume{}, reason: errUnreported,
			change: func(_ *desired.Volume, _ *actual.Volume, s *Schedule) { s.Reported = map[v1.UniqueVolumeName]bool{} }},
	} {
		t.Run(name, func(t *testing.T) {
			var s Schedule
			if test.change != nil {
				test.change(test.want, test.have, &s)
			}
			var want desired.World
			var have actual.World
			want.Volumes = want.Volumes.With(vol, test.want)
			have.Put(vol, test.have)
			if test.other != nil {
				have.Put("plugin/other", test.other)
			}
			p := PlannerOf(vol, want, have, s, time.Time{})
			require.ErrorIs(t, p.WaitReason(podA), test.reason)
			op, _, _ := NextOperation(vol, want, have, s, time.Time{})
			brings := op.Volume != "" && operation.BringsUp(op.Verb)
			require.False(t, brings && test.reason != nil, "%v", op)
		})
	}
}

// TestLeftoverMayBeVolume: a leftover may be the volume of its record, else a volume in the plugin's
// scope, else a volume with the name of its directory.
func TestLeftoverMayBeVolume(t *testing.T) {
	for name, test := range map[string]struct {
		left  Leftover
		mayBe bool
	}{
		"its record":        {Leftover{Volume: vol}, true},
		"another record":    {Leftover{Volume: "plugin/other", Path: "/p/disk"}, false},
		"its scope":         {Leftover{Scope: volume.LeftoverScope{VolumeName: "handle"}}, true},
		"another scope":     {Leftover{Scope: volume.LeftoverScope{VolumeName: "other"}, Path: "/p/disk"}, false},
		"its device":        {Leftover{Scope: volume.LeftoverScope{DevicePath: "/dev/own"}, Path: "/p/other"}, true},
		"another device":    {Leftover{Scope: volume.LeftoverScope{DevicePath: "/dev/other"}, Path: "/p/disk"}, false},
		"its name":          {Leftover{Path: "/p/disk"}, true},
		"a view":            {Leftover{Path: "/p/disk~r"}, true},
		"another name":      {Leftover{Path: "/p/other"}, false},
		"its name in a pod": {Leftover{Path: "/p/vol"}, true},
	} {
		v := actualVolume(diskTraits, actual.Present, actual.Present, nil)
		v.Plugin, v.Name, v.Spec = "plugin", "handle", specWithUID("one", v1.PersistentVolumeFilesystem)
		v.Spec.PersistentVolume.Name, v.LastPod, v.DevicePath = "disk", podA, "/dev/own"
		var have actual.World
		have.Put(vol, v)
		s := Schedule{Unrecognized: map[string][]Leftover{"plugin": {test.left}}}
		p := PlannerOf(vol, desired.World{Populated: true}, have, s, time.Time{})
		require.Equal(t, test.mayBe, p.mayBeUnrecognized(), name)
		require.Equal(t, !test.mayBe, p.MayRelease(), name)
	}
}
