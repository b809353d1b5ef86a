package manager_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume/volumetest"
	"k8s.io/apimachinery/pkg/types"
)

// bindSubpath binds a part of the pod's volume for a container.
func (n *node) bindSubpath(m *manager.Manager, pod, outer string) (target string) {
	n.Helper()
	target = filepath.Join(n.dir, "root/pods", pod, "volume-subpaths", outer, "c/0")
	require.NoError(n, os.MkdirAll(target, 0o755))
	source := m.GetMountedVolumesForPod(types.UID(pod))[outer].Path
	require.NoError(n, n.kernel.Mount(n.Context(), mount.Request{Source: source, Target: target}))
	return target
}

// TestSubpathsAreUnmountedFirst: the subpath mounts of a volume are unmounted before the volume is torn down, also
// after a restart. Subpath mounts of other volumes stay.
func TestSubpathsAreUnmountedFirst(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				n.claim("a")
				n.claim("b")
				pod, other := podWith("1", "a", "b"), podWith("2", "a")
				m, stop := n.runUp(pod, other)
				n.bindSubpath(m, "1", "v0")
				stays := n.bindSubpath(m, "1", "v1")
				theirs := n.bindSubpath(m, "2", "v0")
				if restart {
					stop()
				}
				less := podWith("1", "a", "b")
				less.Spec.Containers[0].VolumeMounts = less.Spec.Containers[0].VolumeMounts[1:]
				n.source.SetPod(less)
				if restart {
					m, stop = n.run()
				}
				time.Sleep(time.Minute)
				require.Empty(t, n.mountsBelow("/1/volume-subpaths/v0"))
				require.NoDirExists(t, filepath.Join(n.dir, "root/pods/1/volume-subpaths/v0"))
				require.Len(t, n.mountsBelow(stays), 1)
				require.Len(t, n.mountsBelow(theirs), 1)

				n.source.RemovePod("1", "2")
				require.NoError(t, m.WaitForAllPodsUnmount(t.Context()))
				require.Zero(t, stableMountCount(n))
				require.NoDirExists(t, filepath.Join(n.dir, "root/pods/1"))
				stop()
			})
		})
	}
}

// TestSubpathsUnderTwoNames: the subpaths of a volume with two names in a pod are unmounted under both
// names.
func TestSubpathsUnderTwoNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a", "a", "b")
		m, stop := n.runUp(pod)
		n.bindSubpath(m, "1", "v0")
		n.bindSubpath(m, "1", "v1")
		stays := n.bindSubpath(m, "1", "v2")
		less := podWith("1", "a", "a", "b")
		less.Spec.Containers[0].VolumeMounts = less.Spec.Containers[0].VolumeMounts[2:]
		n.source.SetPod(less)
		time.Sleep(time.Minute)
		require.Len(t, n.mountsBelow("/1/volume-subpaths"), 1)
		require.Len(t, n.mountsBelow(stays), 1)
		n.source.RemovePod("1")
		n.down(m, pod)
		require.Zero(t, stableMountCount(n))
		stop()
	})
}
