package manager

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// TestDesiredDirectoryIsNotKnown: a rescan reconstructs a directory of an earlier run until the volume
// desired in it is part of the actual state, because the pod may be deleted before.
func TestDesiredDirectoryIsNotKnown(t *testing.T) {
	l := newIdleLoop(t)
	found := poddirs.Volume{Pod: podA.Pod, Plugin: "p", Name: podA.Name}
	pod := &v1.Pod{}
	pod.UID = podA.Pod
	l.want.Demands = l.want.Demands.With(podA.Pod, &desired.Demand{Pod: pod, Volumes: []desired.DemandedVolume{{Place: naming.Place{Volume: "disk", Key: podA}, Volume: &desired.Volume{Plugin: "p"}, Pod: &desired.Pod{}}}})
	require.Equal(t, v1.UniqueVolumeName("disk"), l.want.VolumeIn(found.Dir()))
	require.False(t, l.isKnown(found))
	l.putVolume("disk", actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podA: actual.Uncertain}))
	require.True(t, l.isKnown(found))
}

// TestKnownDirectory: a directory is identified by its pod, plugin and name. While another
// plugin sets a volume up again, the directory of the earlier plugin is still reconstructed.
func TestKnownDirectory(t *testing.T) {
	for name, other := range map[string]naming.PodDir{
		"pod":    {Pod: podB.Pod, Plugin: "p", Name: podA.Name},
		"plugin": {Pod: podA.Pod, Plugin: "q", Name: podA.Name},
		"name":   {Pod: podA.Pod, Plugin: "p", Name: podB.Name + "x"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newIdleLoop(t)
			v := actualVolume(naming.Traits{}, actual.Absent, actual.Absent, nil)
			v.Plugin = "p"
			j := execution.Job{Operation: operation.Operation{Verb: operation.SetUp, Volume: "disk", Pod: podA}, Spec: &volume.Spec{}}
			l.schedule.Add(&operation.Flight{Operation: j.Operation})
			l.have.Put("disk", execution.StateDuring(v, j))
			require.True(t, l.isKnown(poddirs.Volume{Pod: podA.Pod, Plugin: "p", Name: podA.Name}))
			require.False(t, l.isKnown(poddirs.Volume{Pod: other.Pod, Plugin: other.Plugin, Name: other.Name}))
		})
	}
}
