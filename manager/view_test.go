package manager_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestViewsSurviveChanges: a pod with one claim under two names keeps both views through all changes
// of the claim and its volume, also after restarts. Both are torn down with the pod.
func TestViewsSurviveChanges(t *testing.T) {
	for kind, fake := range map[string]volumetest.FakeConfig{
		"for each pod": perPod, "for all": {NoAttach: true}, "attached": {NoDeviceMount: true}, "both": {},
	} {
		for _, mode := range []v1.PersistentVolumeAccessMode{v1.ReadWriteMany, v1.ReadWriteOncePod} {
			t.Run(kind+", "+string(mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { requireViewsSurvive(newNode(t, fake), mode) })
			})
		}
	}
}

func requireViewsSurvive(n *node, mode v1.PersistentVolumeAccessMode) {
	remake := func(uid types.UID, disk string) {
		n.claim("a", func(pv *v1.PersistentVolume) {
			pv.UID, pv.Spec.AccessModes = uid, []v1.PersistentVolumeAccessMode{mode}
			pv.Spec.CSI = n.plugin.NewSpec("a", n.dir+disk).PersistentVolume.Spec.CSI
		})
	}
	remake("one", "/disk-a")
	pod := podWith("1", "a", "a")
	pod.Spec.Volumes[1].PersistentVolumeClaim.ReadOnly = true
	_, stop := n.runUp(pod)
	before := n.mountsBelow("/")
	for _, change := range []func(){
		func() {}, func() { n.deleteClaim("a") }, func() { remake("two", "/disk-a") }, func() { remake("two", "/disk-b") },
	} {
		change()
		time.Sleep(time.Hour)
		require.ElementsMatch(n, before, n.mountsBelow("/"))
		stop()
		_, stop = n.run()
		time.Sleep(time.Hour)
		require.ElementsMatch(n, before, n.mountsBelow("/"))
	}
	stop()
	n.source.RemovePod("1")
	m, stop := n.run()
	defer stop()
	n.down(m, pod)
	require.Zero(n, stableMountCount(n))
	require.Empty(n, m.State().Leftovers)
}

// A recordingMapperPlugin is a fake plugin that records the specifications of its mappers.
type recordingMapperPlugin struct {
	*volumetest.FakePlugin
	specs []*volume.Spec
}

func (m *recordingMapperPlugin) Unwrap() volume.VolumePlugin { return nil }

func (m *recordingMapperPlugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	m.specs = append(m.specs, spec) // without a lock: a volume has one operation at a time
	return m.FakePlugin.NewBlockVolumeMapper(spec, pod)
}

// TestDeviceUnderTwoNames: a block device that a pod has under two names, one of them read-only,
// is mapped once and writable, regardless of the order of the names and of the name that a
// container uses. MountedVolume.ReadOnly marks the read-only name.
func TestDeviceUnderTwoNames(t *testing.T) {
	for name, uses := range map[string][]string{
		"both": {"reads", "writes"}, "the one that reads": {"reads"}, "the one that writes": {"writes"},
	} {
		for _, reads := range []int{0, 1} {
			t.Run(fmt.Sprint(name, reads), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { requireMappedOnce(newNode(t, perPod), reads, uses) })
			})
		}
	}
}

func requireMappedOnce(n *node, reads int, uses []string) {
	asked := &recordingMapperPlugin{FakePlugin: n.plugin}
	var err error
	n.config.Plugins, err = volume.NewVolumePluginMgr(n.Context(), n.host, asked)
	require.NoError(n, err)
	n.claim("a", ofMode(v1.PersistentVolumeBlock))
	pod := podWith("1", "a", "a")
	pod.Spec.Volumes[reads].Name, pod.Spec.Volumes[1-reads].Name = "reads", "writes"
	pod.Spec.Volumes[reads].PersistentVolumeClaim.ReadOnly = true
	pod.Spec.Containers[0].VolumeMounts = nil
	for _, use := range uses {
		pod.Spec.Containers[0].VolumeDevices = append(pod.Spec.Containers[0].VolumeDevices, v1.VolumeDevice{Name: use, DevicePath: "/dev/" + use})
	}
	for range 2 { // the second is a restart
		m, stop := n.runUp(pod)
		up := m.GetMountedVolumesForPod("1")
		require.Len(n, up, len(uses))
		for name, v := range up {
			require.True(n, v.Block)
			require.Equal(n, "a", path.Base(v.Path))
			require.Equal(n, name == "reads", v.ReadOnly, name)
			require.Equal(n, name == "reads", v.Spec.ReadOnly, name)
		}
		require.Len(n, m.State().Volumes[0].Pods, 1, "one device is up once")
		require.Empty(n, m.State().Leftovers)
		stop()
	}
	for _, spec := range asked.specs {
		require.False(n, spec.ReadOnly, "by another name it can be written to")
	}
	m, stop := n.run()
	n.source.RemovePod("1")
	n.down(m, pod)
	synctest.Wait()
	require.Empty(n, m.State().Volumes)
	stop()
}

// TestViewsDifferInEventsAndLog: the view of a volume and the volume itself have one name, and differ
// in the events and in the log.
func TestViewsDifferInEventsAndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		logs := n.logs()
		n.claim("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.Attach, Err: errors.New("no luck"), Times: 1})
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: errors.New("no luck"), Times: 2})
		pod := podWith("1", "a", "a")
		pod.Spec.Volumes[1].PersistentVolumeClaim.ReadOnly = true
		m, stop := n.runUp(pod)
		n.source.RemovePod("1")
		n.down(m, pod)
		stop()

		var told []string
		for _, e := range n.events {
			if e.PodUID == "1" {
				told = append(told, e.Message)
			}
		}
		for _, what := range []string{"attach: %s: Attach: no luck", "set up: %s: SetUp: no luck", "set up: %s", "tear down: %s"} {
			require.Contains(t, told, fmt.Sprintf(what, `volume "a"`))
			require.Contains(t, told, fmt.Sprintf(what, `volume "a" (read-only view)`))
		}
		views := map[any]int{}
		for _, line := range append(logs("operation failed"), logs("operation done")...) {
			if line["pod"] != nil {
				views[line["view"]]++
			}
		}
		require.Equal(t, map[any]int{nil: 3, "read-only": 3}, views)
	})
}

// TestReadOnlyNameIsView: of two names of a claim the read-only one is a view. The writable name has
// the directory of the volume, in any order of the names.
func TestReadOnlyNameIsView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []int{0, 1} {
			n := newNode(t, perPod)
			n.claim("a")
			pod := podWith("1", "a", "a")
			pod.Spec.Volumes[first].PersistentVolumeClaim.ReadOnly = true
			m, stop := n.runUp(pod)
			up := m.GetMountedVolumesForPod("1")
			reads, writes := pod.Spec.Volumes[first].Name, pod.Spec.Volumes[1-first].Name
			require.Equal(t, "a", path.Base(up[writes].Path))
			require.Equal(t, up[writes].Path+"~r", up[reads].Path)
			require.True(t, up[reads].Spec.ReadOnly)
			n.source.RemovePod("1")
			n.down(m, pod)
			require.Empty(t, m.State().Volumes)
			stop()
		}
	})
}

// TestReadWriteOncePodWithView: a ReadWriteOncePod volume may have two names in its pod.
func TestReadWriteOncePodWithView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a", func(pv *v1.PersistentVolume) {
			pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		})
		pod := podWith("1", "a", "a")
		pod.Spec.Volumes[1].PersistentVolumeClaim.ReadOnly = true
		m, stop := n.runUp(pod)
		require.Len(t, m.GetMountedVolumesForPod("1"), 2)
		n.source.RemovePod("1")
		n.down(m, pod)
		stop()
	})
}

// TestViewNameIsRefused: a volume whose name has the suffix of a view's directory is refused.
func TestViewNameIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a~r")
		m, stop := n.run()
		pod := podWith("1", "a~r")
		n.source.SetPod(pod)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		require.ErrorContains(t, m.WaitForAttachAndMount(ctx, pod), "~r")
		cancel()
		stop()
	})
}
