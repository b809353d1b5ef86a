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

// subpath binds a part of the pod's volume for a container.
func (n *node) subpath(m *manager.Manager, pod, outer string) (target string) {
	n.Helper()
	target = filepath.Join(n.dir, "root/pods", pod, "volume-subpaths", outer, "c/0")
	require.NoError(n, os.MkdirAll(target, 0o755))
	source := m.GetMountedVolumesForPod(types.UID(pod))[outer].Path
	require.NoError(n, n.kernel.Mount(n.Context(), mount.Request{Source: source, Target: target}))
	return target
}

// TestSubpaths: what containers have of a volume goes before it, also after a restart,
// and nothing else does.
func TestSubpaths(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				n.claim("a")
				n.claim("b")
				pod, other := podWith("1", "a", "b"), podWith("2", "a")
				m, stop := n.runUp(pod, other)
				n.subpath(m, "1", "v0")
				stays := n.subpath(m, "1", "v1")
				theirs := n.subpath(m, "2", "v0")
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
				require.Empty(t, n.table("/1/volume-subpaths/v0"))
				require.NoDirExists(t, filepath.Join(n.dir, "root/pods/1/volume-subpaths/v0"))
				require.Len(t, n.table(stays), 1)
				require.Len(t, n.table(theirs), 1)

				n.source.RemovePod("1", "2")
				require.NoError(t, m.WaitForAllPodsUnmount(t.Context()))
				require.Zero(t, settled(n))
				require.NoDirExists(t, filepath.Join(n.dir, "root/pods/1"))
				stop()
			})
		})
	}
}

// TestSubpathsByTwoNames: a pod may have one volume by two names, and parts of it by both.
func TestSubpathsByTwoNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a", "a", "b")
		m, stop := n.runUp(pod)
		n.subpath(m, "1", "v0")
		n.subpath(m, "1", "v1")
		stays := n.subpath(m, "1", "v2")
		less := podWith("1", "a", "a", "b")
		less.Spec.Containers[0].VolumeMounts = less.Spec.Containers[0].VolumeMounts[2:]
		n.source.SetPod(less)
		time.Sleep(time.Minute)
		require.Len(t, n.table("/1/volume-subpaths"), 1)
		require.Len(t, n.table(stays), 1)
		n.source.RemovePod("1")
		n.down(m, pod)
		require.Zero(t, settled(n))
		stop()
	})
}
