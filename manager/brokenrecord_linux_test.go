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

// recordDir is the directory of the manager's records.
func (n *node) recordDir() string {
	return filepath.Join(n.dir, "root/plugins/volumekit.io/manager/volumes")
}

// recordFile returns where the only record is.
func (n *node) recordFile() string {
	n.Helper()
	files, err := filepath.Glob(n.recordDir() + "/*.json")
	require.NoError(n, err)
	require.Len(n, files, 1)
	return files[0]
}

// changeRecord replaces a part of the only record.
func (n *node) changeRecord(from, to string) {
	n.Helper()
	text, err := os.ReadFile(n.recordFile())
	require.NoError(n, err)
	require.Contains(n, string(text), from)
	require.NoError(n, os.WriteFile(n.recordFile(), []byte(strings.Replace(string(text), from, to, 1)), 0o600))
}

// leftoverErrors returns the errors of all leftovers.
func leftoverErrors(m *manager.Manager) string {
	var all []string
	for _, l := range m.State().Leftovers {
		all = append(all, l.Err.Error())
	}
	return strings.Join(all, "\n")
}

// TestRecordWithHostileSize: a record with a size whose comparison takes too long is broken.
func TestRecordWithHostileSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", func(pv *v1.PersistentVolume) {
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		})
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()
		n.changeRecord(`"size":"1Gi"`, `"size":"1e999999999"`)
		m, stop := n.run()
		defer stop()
		synctest.Wait()
		require.Contains(t, leftoverErrors(m), "too large")
		n.up(m, pod)
	})
}

// TestIrregularRecordFiles: a link, a pipe or a huge file in the directory of records is a leftover
// and does not block the manager.
func TestIrregularRecordFiles(t *testing.T) {
	n := newNode(t, volumetest.FakeConfig{})
	n.claim("a")
	pod := podWith("1", "a")
	_, stop := n.runUp(pod)
	stop()
	record := n.recordFile()
	large, err := os.Create(n.recordDir() + "/large.json")
	require.NoError(t, err)
	require.NoError(t, large.Truncate(1<<40))
	require.NoError(t, large.Close())
	require.NoError(t, os.Symlink(record, n.recordDir()+"/link.json"))
	require.NoError(t, syscall.Mkfifo(n.recordDir()+"/pipe.json", 0o600))
	require.NoError(t, syscall.Mkfifo(record+".tmp", 0o600)) // where the next one is written
	m, stop := n.run()
	n.up(m, pod)
	require.Len(t, m.State().Leftovers, 3, leftoverErrors(m))
	for i, errText := range []string{"large.json: a record must have at most", "link.json: open", "pipe.json: not a regular file"} {
		left := m.State().Leftovers[i]
		require.ErrorContains(t, left.Err, errText)
		require.Equal(t, n.recordDir()+"/"+errText[:strings.Index(errText, ":")], left.Path)
	}
	stop()
}

// TestRecordWithForeignMapPathIsRefused: a record of a block volume with another path than the
// plugin's is a leftover.
func TestRecordWithForeignMapPathIsRefused(t *testing.T) {
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
		require.Contains(t, leftoverErrors(m), "device mount path")
		require.Equal(t, n.recordFile(), m.State().Leftovers[0].Path)
		require.Zero(t, n.plugin.Calls(volumetest.TearDownDevice))
	})
}

// removePodDirs unmounts the volumes in pods and removes the pods' directories, so that only the
// records describe the volumes.
func (n *node) removePodDirs() {
	n.Helper()
	for _, mounted := range n.mountsBelow("/pods/") {
		require.NoError(n, n.kernel.Unmount(n.Context(), mounted.Mountpoint))
	}
	require.NoError(n, os.Rename(n.dir+"/root/pods", n.dir+"/pods"))
}

// TestRecordOfPluginRegisteredLater: a volume whose recorded plugin is not registered is
// reported as in use. It is torn down once the plugin is registered.
func TestRecordOfPluginRegisteredLater(t *testing.T) {
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
					n.removePodDirs()
				}
				var err error
				n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), n.host)
				require.NoError(t, err)
				m, stop = n.run()
				defer stop()
				time.Sleep(time.Hour) // and so many resyncs
				require.Equal(t, inUse, m.GetVolumesInUse())
				require.NotZero(t, n.mountCount())
				require.NoError(t, n.config.Plugins.Register(t.Context(), n.plugin))
				time.Sleep(time.Hour)
				require.Empty(t, m.State().Leftovers)
				require.Empty(t, m.GetVolumesInUse())
				require.Zero(t, n.mountCount())
			})
		})
	}
}

// TestBrokenRecordIsInUse: a volume whose record has invalid fields is reported as in use until
// the record is written again.
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
		n.removePodDirs()
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
