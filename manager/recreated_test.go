package manager_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestRecreatedVolumeReplacesOldOne: a volume recreated under its name is another volume. The old one is torn down
// before the new one is set up.
func TestRecreatedVolumeReplacesOldOne(t *testing.T) {
	for name, change := range map[string]func(*v1.PersistentVolume){
		"another one": func(pv *v1.PersistentVolume) { pv.UID = "2" },
		"a device": func(pv *v1.PersistentVolume) {
			block := v1.PersistentVolumeBlock
			pv.Spec.VolumeMode = &block
			pv.UID = "1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{NoAttach: true})
				n.claim("a", func(pv *v1.PersistentVolume) { pv.UID = "1" })
				one, two := podWith("1", "a"), podWith("2", "a")
				m, stop := n.runUp(one)
				n.claim("a", change)
				if name == "a device" {
					withDevices(two)
				}
				n.source.SetPod(two)
				n.source.RemovePod("1")
				n.up(m, two)
				require.Equal(t, name == "a device", m.GetMountedVolumesForPod("2")["v0"].Block)
				require.Equal(t, 1, n.plugin.Calls(volumetest.UnmountDevice), "the old one is unmounted first")
				stop()
			})
		})
	}
}

// TestRecreatedVolumeWaitsForPod: a recreated volume is not reported as up while the deleted volume of
// the same name is up in the pod. The deleted volume stays as long as the pod.
func TestRecreatedVolumeWaitsForPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", func(pv *v1.PersistentVolume) { pv.UID = "one" })
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		before := n.mountsBelow("/")
		n.claim("a", func(pv *v1.PersistentVolume) { pv.UID = "two" })
		time.Sleep(time.Hour)
		require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), pod), "the deleted volume of the same name")
		require.Empty(t, m.GetMountedVolumesForPod("1"))
		require.Equal(t, before, n.mountsBelow("/"))
		require.ErrorContains(t, m.State().Volumes[0].Pods[0].Waits, "deleted volume of the same name")
		require.Equal(t, []string{manager.FailedMount}, n.warnings())

		n.source.RemovePod("1")
		n.down(m, pod)
		n.source.SetPod(pod)
		n.up(m, pod)
		require.Equal(t, types.UID("two"), m.GetMountedVolumesForPod("1")["v0"].Spec.PersistentVolume.UID)
	})
}

// TestPodKeepsRecreatedVolume: a running pod keeps its volume if the persistent volume is edited, or
// recreated under its name with any difference, also after a restart. Later pods wait for the
// old volume to go, or receive the new one.
func TestPodKeepsRecreatedVolume(t *testing.T) {
	for kind, fake := range map[string]volumetest.FakeConfig{
		"for each pod": perPod, "for all": {NoAttach: true}, "attached": {NoDeviceMount: true}, "both": {},
	} {
		for what, change := range map[string]func(n *node, other *volumetest.FakePlugin, pv *v1.PersistentVolume){
			"another handle": func(n *node, _ *volumetest.FakePlugin, pv *v1.PersistentVolume) {
				pv.Spec.CSI = n.plugin.NewSpec("a", n.dir+"/disk-b").PersistentVolume.Spec.CSI
			},
			"another handle and UID": func(n *node, _ *volumetest.FakePlugin, pv *v1.PersistentVolume) {
				pv.Spec.CSI, pv.UID = n.plugin.NewSpec("a", n.dir+"/disk-b").PersistentVolume.Spec.CSI, "two"
			},
			"another plugin": func(n *node, other *volumetest.FakePlugin, pv *v1.PersistentVolume) {
				pv.Spec.CSI = other.NewSpec("a", n.dir+"/disk-c").PersistentVolume.Spec.CSI
			},
			"another mode": func(_ *node, _ *volumetest.FakePlugin, pv *v1.PersistentVolume) { ofMode(v1.PersistentVolumeBlock)(pv) },
		} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprint(kind, ", ", what, ", restart ", restart), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						n := newNode(t, fake)
						other := n.addSecondPlugin(fake)
						n.claim("b")
						n.claim("c")
						n.claim("a", func(pv *v1.PersistentVolume) { pv.UID = "one" })
						pod := podWith("1", "a")
						m, stop := n.runUp(pod)
						defer func() { stop() }()
						before := n.mountsBelow("/")
						if restart {
							stop()
						}
						n.claim("a", func(pv *v1.PersistentVolume) { pv.UID = "one"; change(n, other, pv) })
						if restart {
							m, stop = n.run()
						}
						time.Sleep(time.Hour)
						require.Equal(t, before, n.mountsBelow("/"))
						require.Error(t, m.WaitForAttachAndMount(endedContext(t), pod))
						require.Empty(t, m.GetMountedVolumesForPod("1"))
						require.Zero(t, n.plugin.Calls(volumetest.Detach)+n.plugin.Calls(volumetest.UnmountDevice)+n.plugin.Calls(volumetest.TearDown))

						next := podWith("2", "a")
						if what == "another mode" {
							next = withDevices(next)
						}
						n.source.SetPod(next)
						time.Sleep(time.Hour)
						require.Subset(t, n.mountsBelow("/"), before)
						if restart { // the volume of the waiting pod is only attached
							stop()
							m, stop = n.run()
							time.Sleep(time.Hour)
						}
						require.Subset(t, n.mountsBelow("/"), before)
						require.NotContains(t, strings.Join(n.messages(), "\n"), volume.ErrAlreadyMounted.Error(), "two volumes in one place")
						n.source.RemovePod("1")
						n.down(m, pod)
						n.up(m, next)
						n.source.RemovePod("2")
						n.down(m, next)
						time.Sleep(time.Minute)
						require.Zero(t, n.mountCount())
						require.Empty(t, m.State().Volumes)
						require.Empty(t, m.State().Leftovers)
					})
				})
			}
		}
	}
}

// addSecondPlugin adds a second plugin to the node.
func (n *node) addSecondPlugin(fake volumetest.FakeConfig) *volumetest.FakePlugin {
	n.Helper()
	fake.Name, fake.Mounter = "volumekit.io/other", n.kernel
	other := volumetest.NewFakePlugin(fake)
	plugins, err := volume.NewVolumePluginMgr(context.Background(), n.host, n.plugin, other)
	require.NoError(n, err)
	n.config.Plugins = plugins
	return other
}
