package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// TestTakeOverOfStaticPod: a static pod of a stopped kubelet keeps its volumes as long as its mirror
// pod is on the API server, and then until its containers have ended.
func TestTakeOverOfStaticPod(t *testing.T) {
	inWorld(t, func(w *world) {
		const uid = "0123456789abcdef0123456789abcdef"
		root, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		scratch := filepath.Join(root, "pods", uid, "volumes/kubernetes.io~empty-dir/v0")
		note := filepath.Join(root, "pods", uid, "plugins/kubernetes.io~empty-dir/v0/ready")
		data := filepath.Join(scratch, "data")
		require.NoError(t, os.MkdirAll(scratch, 0o777))
		require.NoError(t, os.MkdirAll(filepath.Dir(note), 0o750))
		require.NoError(t, os.WriteFile(note, nil, 0o644))
		require.NoError(t, os.WriteFile(data, []byte("of the pod"), 0o644))
		static := mirror("static", uid, v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		w.running[uid] = true
		w.put(static)
		w.start()
		_, _, stop := w.runManager(func(c *manager.Config) {
			host, err := volume.NewHost(w.Context(), root, volume.WithNodeName("node-1"))
			require.NoError(t, err)
			kernel := mounttest.NewFake(mount.Config{})
			c.Mounter = kernel
			c.Plugins, err = volume.NewVolumePluginMgr(w.Context(), host, emptydir.New(emptydir.Config{Mounter: kernel, NoteFiles: true}))
			require.NoError(t, err)
		})
		defer stop()
		time.Sleep(time.Minute)
		require.FileExists(t, data)
		w.remove(static)
		time.Sleep(time.Minute)
		require.FileExists(t, data, "the containers run")

		w.news.Lock()
		delete(w.running, uid)
		w.news.Unlock()
		w.ContainersEnded(uid)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoDirExists(t, filepath.Join(root, "pods", uid))
	})
}
