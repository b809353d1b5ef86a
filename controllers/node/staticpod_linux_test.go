package node_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

const staticUID = "0123456789abcdef0123456789abcdef"

// A staticNode is the volumes of a node on which a kubelet has run a static pod with an emptyDir.
type staticNode struct {
	*world
	root string
	data string // a file in the emptyDir
}

func newStaticNode(w *world) *staticNode {
	root, err := filepath.EvalSymlinks(w.TempDir())
	require.NoError(w, err)
	scratch := filepath.Join(root, "pods", staticUID, "volumes/kubernetes.io~empty-dir/v0")
	note := filepath.Join(root, "pods", staticUID, "plugins/kubernetes.io~empty-dir/v0/ready")
	n := &staticNode{w, root, filepath.Join(scratch, "data")}
	require.NoError(w, os.MkdirAll(scratch, 0o777))
	require.NoError(w, os.MkdirAll(filepath.Dir(note), 0o750))
	require.NoError(w, os.WriteFile(note, nil, 0o644))
	require.NoError(w, os.WriteFile(n.data, []byte("of the pod"), 0o644))
	putNode(w)
	return n
}

// run runs a manager of the node's volumes.
func (n *staticNode) run() (m *manager.Manager, stop func()) {
	n.start()
	m, _, stop = n.runManager(func(c *manager.Config) {
		host, err := volume.NewHost(n.Context(), n.root, volume.WithNodeName("node-1"))
		require.NoError(n, err)
		kernel := mounttest.NewFake(mount.Config{})
		files := content.Config{Mounter: kernel, ConfigMaps: n.Source}
		c.Mounter = kernel
		c.Plugins, err = volume.NewVolumePluginMgr(n.Context(), host, emptydir.New(emptydir.Config{Mounter: kernel, NoteFiles: true}), content.NewConfigMap(files))
		require.NoError(n, err)
	})
	return m, stop
}

// TestTakeOverOfStaticPod: a static pod of a stopped kubelet keeps its volumes as long as its mirror
// pod is on the API server, and then until its containers have ended.
func TestTakeOverOfStaticPod(t *testing.T) {
	inWorld(t, func(w *world) {
		n := newStaticNode(w)
		static := mirror("static", staticUID, v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		w.running[staticUID] = true
		w.put(static)
		_, stop := n.run()
		defer stop()
		time.Sleep(time.Minute)
		require.FileExists(t, n.data)
		w.remove(static)
		time.Sleep(time.Minute)
		require.FileExists(t, n.data, "the containers run")

		w.news.Lock()
		delete(w.running, staticUID)
		w.news.Unlock()
		w.ContainersEnded(staticUID)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoDirExists(t, filepath.Join(n.root, "pods", staticUID))
	})
}

// TestTenantTakesStaticPod: a tenant creates a mirror pod with the UID of a static pod and with a volume of the
// tenant's own. The static pod keeps its data, and no volume of the tenant appears in its directory.
func TestTenantTakesStaticPod(t *testing.T) {
	scratch := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
	tenants := v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "tenants"}}}
	for name, test := range map[string]struct {
		tenant    *v1.Pod
		hasStatic bool
		isHeld    bool
		isTaken   bool
	}{
		"forged":                            {forged("a-tenant", staticUID, tenants), true, false, false},
		"with the UID of the node":          {mirror("a-tenant", staticUID, tenants), true, true, false},
		"forged, the mirror pod is missing": {forged("a-tenant", staticUID, tenants), false, false, false},
		"control: of the kubelet":           {mirror("a-tenant", staticUID, tenants), false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				n := newStaticNode(w)
				w.put(configMap("tenants", "text"))
				w.put(test.tenant)
				time.Sleep(time.Minute)
				if test.hasStatic {
					w.put(mirror("static", staticUID, scratch))
				}
				w.running[staticUID] = test.hasStatic || !test.isTaken
				if !test.hasStatic && !test.isTaken {
					w.config.LocalPods = []*v1.Pod{mirror("static", staticUID, scratch)}
					w.config.LocalPods[0].UID = staticUID
				}
				m, stop := n.run()
				defer stop()
				time.Sleep(time.Hour)
				if test.isTaken {
					require.NoFileExists(t, n.data)
					require.DirExists(t, filepath.Join(n.root, "pods", staticUID, "volumes/kubernetes.io~configmap"))
					return
				}
				require.FileExists(t, n.data)
				require.NoDirExists(t, filepath.Join(n.root, "pods", staticUID, "volumes/kubernetes.io~configmap"))
				if test.isHeld {
					started := test.tenant.DeepCopy()
					started.UID = staticUID
					ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
					defer cancel()
					require.ErrorIs(w, m.WaitForAttachAndMount(ctx, started), context.DeadlineExceeded)
				}
			})
		})
	}
}
