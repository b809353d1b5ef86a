package actual

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/mount"
)

var (
	podA = naming.PodKey{Pod: "a", Name: "vol"}
	podB = naming.PodKey{Pod: "b", Name: "vol"}
)

// TestMountEventsTouch: a mount event affects the volumes that the mount can hide or replace, and
// no other volume.
func TestMountEventsTouch(t *testing.T) {
	const path, device = "/root/pods/a/volumes/p/vol", "/root/plugins/p/dev"
	for name, test := range map[string]struct {
		change  mount.MountChange
		touched string // the affected volume: "vol" is in a pod, "dev" is mounted for all pods
		all     bool
	}{
		"its own mount":         {change: mount.MountChange{ID: 7, Parent: 1, Target: path}},
		"its device's mount":    {change: mount.MountChange{ID: 9, Parent: 1, Target: device}},
		"elsewhere":             {change: mount.MountChange{ID: 50, Parent: 1, Target: "/elsewhere"}},
		"beside the pod":        {change: mount.MountChange{ID: 50, Parent: 1, Target: "/root/pods/b"}},
		"beside the device":     {change: mount.MountChange{ID: 50, Parent: 1, Target: device + "2"}},
		"over it":               {change: mount.MountChange{ID: 50, Parent: 1, Target: path}, touched: "vol"},
		"over its device":       {change: mount.MountChange{ID: 50, Parent: 1, Target: device}, touched: "dev"},
		"in it":                 {change: mount.MountChange{ID: 50, Parent: 7, Target: path + "/below"}, touched: "vol"},
		"in its device":         {change: mount.MountChange{ID: 50, Parent: 9, Target: device + "/below"}, touched: "dev"},
		"over its pod":          {change: mount.MountChange{ID: 50, Parent: 1, Target: "/root/pods/a"}, touched: "vol"},
		"in its pod":            {change: mount.MountChange{ID: 50, Parent: 1, Target: "/root/pods/a/volumes/p"}, touched: "vol"},
		"unmounted":             {change: mount.MountChange{ID: 7}, touched: "vol"},
		"its device unmounted":  {change: mount.MountChange{ID: 9}, touched: "dev"},
		"moved":                 {change: mount.MountChange{ID: 7, Parent: 1, Target: "/elsewhere"}, touched: "vol"},
		"over all pods":         {change: mount.MountChange{ID: 50, Parent: 1, Target: "/root/pods"}, all: true},
		"over the root":         {change: mount.MountChange{ID: 50, Parent: 1, Target: "/root"}, all: true},
		"over all":              {change: mount.MountChange{ID: 50, Parent: 1, Target: "/"}, all: true},
		"over all of a plugin":  {change: mount.MountChange{ID: 50, Parent: 1, Target: "/root/plugins/p"}, all: true},
		"over an empty sibling": {change: mount.MountChange{ID: 50, Parent: 1, Target: "/root/plugins/q"}},
	} {
		t.Run(name, func(t *testing.T) {
			require := require.New(t)
			inPod := &Volume{Plugin: "p", Name: "vol", Pods: naming.PodMap[*Pod]{{Key: podA, Value: &Pod{State: Present, Mounted: true, Path: path, Mount: 7}}}}
			forAll := &Volume{Plugin: "p", Name: "dev", Device: Present, DeviceMountPath: device, DeviceMount: 9}
			var w World
			w.Put("vol", inPod)
			w.Put("dev", forAll)
			requireTouched(t, w, test.change, test.touched, test.all)

			unknown := *inPod
			unknown.Pods = naming.PodMap[*Pod]{{Key: podB, Value: &Pod{State: Present, Mounted: true, Path: "/root/pods/b/volumes/p/vol"}}}
			other := w
			other.Put("unknown", &unknown)
			places, _ := other.AffectedPlaces(test.change)
			require.Contains(places, naming.Place{Volume: "unknown", Key: podB}, "any event may be of a mount without a known ID")

			w.Put("vol", &Volume{})
			w.Put("dev", &Volume{})
			requireTouched(t, w, test.change, "", false)
			require.Zero(w.Mounts.Above.Len())
		})
	}
}

func requireTouched(t *testing.T, w World, change mount.MountChange, touched string, all bool) {
	t.Helper()
	places, any := w.AffectedPlaces(change)
	require.Equal(t, all, any)
	for _, at := range places {
		require.Equal(t, touched, string(at.Volume))
	}
	require.Equal(t, touched != "", len(places) > 0)
}
