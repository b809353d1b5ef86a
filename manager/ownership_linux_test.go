package manager_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// TestOwnershipEvents: the progress of a long change of ownership is reported in events of the
// pod, one for each report of the plugin.
func TestOwnershipEvents(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	for _, long := range []bool{false, true} {
		n, err := newRealNode(newTmpfsDir(t))
		require.NoError(t, err)
		host, err := volume.NewHost(t.Context(), filepath.Join(n.dir, "root"))
		require.NoError(t, err)
		plugins, err := volume.NewVolumePluginMgr(t.Context(), host, local.New(local.Config{
			Mounter: n.kernel, Roots: []string{filepath.Join(n.dir, "disks")},
		}))
		require.NoError(t, err)
		var events []manager.Event
		n.manager, err = manager.New(manager.Config{Plugins: plugins, Mounter: n.kernel, Pods: n.source, Claims: n.source, Refresh: -1, Events: func(e manager.Event) {
			if e.Reason == manager.VolumePermissionChangeInProgress {
				events = append(events, e)
			}
		}})
		require.NoError(t, err)
		if long {
			t.Cleanup(manager.ReportOwnershipAtOnce())
		}
		pod, group := n.pod(1, "shared"), int64(1234)
		pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
		stop := n.run(t.Context())
		require.NoError(t, n.up(t.Context(), pod))
		require.NoError(t, n.down(t.Context(), pod))
		require.NoError(t, stop())
		if !long {
			require.Empty(t, events)
			continue
		}
		require.NotEmpty(t, events)
		require.Equal(t, "setting the ownership of volume \"shared\": 1 files seen, 1 changed", events[0].Message)
		require.Equal(t, v1.EventTypeNormal, events[0].Type)
		require.Equal(t, pod.UID, events[0].PodUID)
		require.Equal(t, "shared", events[0].Volume)
	}
}
