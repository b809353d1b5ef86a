package manager_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// records is the directory of the manager's records.
func (n *node) records() string {
	return filepath.Join(n.dir, "root/plugins/volumekit.io~manager/volumes")
}

// record returns where the only record is.
func (n *node) record() string {
	n.Helper()
	files, err := filepath.Glob(n.records() + "/*.json")
	require.NoError(n, err)
	require.Len(n, files, 1)
	return files[0]
}

// changeRecord replaces a part of the only record.
func (n *node) changeRecord(from, to string) {
	n.Helper()
	text, err := os.ReadFile(n.record())
	require.NoError(n, err)
	require.Contains(n, string(text), from)
	require.NoError(n, os.WriteFile(n.record(), []byte(strings.Replace(string(text), from, to, 1)), 0o600))
}

// leftovers says why things are not understood.
func leftovers(m *manager.Manager) string {
	var all []string
	for _, l := range m.State().Leftovers {
		all = append(all, l.Err.Error())
	}
	return strings.Join(all, "\n")
}

// A record with a size that nobody can compute with costs nothing but itself.
func TestRecordOfHostileSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", func(pv *v1.PersistentVolume) {
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		})
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()
		n.changeRecord(`"deviceMountPath"`, `"size":"1e999999999","deviceMountPath"`)
		m, stop := n.run()
		defer stop()
		synctest.Wait()
		require.Contains(t, leftovers(m), "too large")
		n.up(m, pod)
	})
}

// What lies in the place of a record, and is none, keeps nobody waiting.
func TestOddRecords(t *testing.T) {
	n := newNode(t, volumetest.FakeConfig{})
	n.claim("a")
	pod := podWith("1", "a")
	_, stop := n.runUp(pod)
	stop()
	record := n.record()
	large, err := os.Create(n.records() + "/large.json")
	require.NoError(t, err)
	require.NoError(t, large.Truncate(1<<40))
	require.NoError(t, large.Close())
	require.NoError(t, os.Symlink(record, n.records()+"/link.json"))
	require.NoError(t, syscall.Mkfifo(n.records()+"/pipe.json", 0o600))
	require.NoError(t, syscall.Mkfifo(record+".tmp", 0o600)) // where the next one is written
	m, stop := n.run()
	n.up(m, pod)
	require.Len(t, m.State().Leftovers, 3, leftovers(m))
	for i, says := range []string{"large.json: a record has at most", "link.json: open", "pipe.json: not a regular file"} {
		left := m.State().Leftovers[i]
		require.ErrorContains(t, left.Err, says)
		require.Equal(t, n.records()+"/"+says[:strings.Index(says, ":")], left.Path)
	}
	stop()
}

// Nor is a record believed that names another place than the one of a device.
func TestRecordOfAnotherMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", ofMode(v1.PersistentVolumeBlock))
		pod := withDevices(podWith("1", "a"))
		_, stop := n.runUp(pod)
		stop()
		n.changeRecord(`"deviceMountPath":"`, `"deviceMountPath":"/else`)
		n.source.RemovePod("1")
		m, stop := n.run()
		defer stop()
		n.down(m, pod)
		time.Sleep(time.Hour) // and so many resyncs
		require.Contains(t, leftovers(m), "not its place")
		require.Equal(t, n.record(), m.State().Leftovers[0].Path)
		require.Zero(t, n.plugin.Calls(volumetest.TearDownDevice))
	})
}

// forgetPods takes the pods' directories away, so that records alone tell of volumes.
func (n *node) forgetPods() {
	n.Helper()
	for _, mounted := range n.table("/pods/") {
		require.NoError(n, n.kernel.Unmount(n.Context(), mounted.Mountpoint))
	}
	require.NoError(n, os.Rename(n.dir+"/root/pods", n.dir+"/pods"))
}

// What a record of a plugin that is not there tells of is in use, and goes once the plugin
// has come.
func TestRecordOfAPluginThatComesLater(t *testing.T) {
	for name, alone := range map[string]bool{"alone": true, "and a directory": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				n.claim("a")
				m, stop := n.runUp(podWith("1", "a"))
				inUse := m.GetVolumesInUse()
				stop()
				n.source.RemovePod("1")
				if alone {
					n.forgetPods()
				}
				var err error
				n.config.Plugins, err = volume.NewVolumePluginMgr(n.host)
				require.NoError(t, err)
				m, stop = n.run()
				defer stop()
				time.Sleep(time.Hour) // and so many resyncs
				require.Equal(t, inUse, m.GetVolumesInUse())
				require.NotZero(t, n.mounts())
				require.NoError(t, n.config.Plugins.Register(n.plugin))
				time.Sleep(time.Hour)
				require.Empty(t, m.State().Leftovers)
				require.Empty(t, m.GetVolumesInUse())
				require.Zero(t, n.mounts())
			})
		})
	}
}

// So is what a record tells of that is not believed otherwise, until it is written anew.
func TestBrokenRecordIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		inUse := m.GetVolumesInUse()
		stop()
		n.changeRecord(`"uid":"1"`, `"uid":".."`)
		n.source.RemovePod("1")
		n.forgetPods()
		m, stop = n.run()
		defer stop()
		time.Sleep(time.Hour) // and so many resyncs
		require.Equal(t, inUse, m.GetVolumesInUse())
		n.source.SetPod(pod)
		n.up(m, pod)
		time.Sleep(time.Hour)
		require.Empty(t, m.State().Leftovers)
	})
}
