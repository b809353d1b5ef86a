package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/screen"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// createObjects creates the pod "web" with volumes from the API server, and its node.
func createObjects(t *testing.T, cluster api.Cluster) {
	t.Helper()
	ctx, options := t.Context(), metav1.CreateOptions{}
	meta := metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "web"}
	_, err := cluster.ConfigMaps(v1.NamespaceDefault).Create(ctx, &v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"color": "blue"}}, options)
	require.NoError(t, err)
	_, err = cluster.Secrets(v1.NamespaceDefault).Create(ctx, &v1.Secret{ObjectMeta: meta, StringData: map[string]string{"key": "value"}}, options)
	require.NoError(t, err)
	_, err = cluster.ServiceAccounts(v1.NamespaceDefault).Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, options)
	require.NoError(t, err)
	_, err = cluster.Nodes().Create(ctx, newNode(nodeName), options)
	require.NoError(t, err)
	volumes := webVolumes()
	volumes[3] = v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}} // a claim needs a binder
	_, err = cluster.Pods(v1.NamespaceDefault).Create(ctx, newPod("web", volumes...), options)
	require.NoError(t, err)
}

// TestIdle: an agent makes no call apart from watches while nothing changes.
func TestIdle(t *testing.T) {
	testbed.RealTime(t)
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{})
		createObjects(t, server.Direct())
		a, stop := startAgent(t, server)
		defer stop()
		requireUp(t, a, 5)
		require.NotEmpty(t, server.Calls(apitest.Call{Resource: "serviceaccounts", Subresource: "token"}))

		server.ForgetCalls()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, call := range server.Calls(apitest.Call{}) {
			require.Equal(t, apitest.Watch, call.Verb, "%s", call)
		}
	})
}

// startAgent runs an agent with a kernel in memory until stop. An event is a failure.
func startAgent(t *testing.T, server *apitest.Server) (a *agent, stop func()) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	a, err = newAgent(t.Context(), options{node: nodeName, root: root}, io.Discard, parts{
		cluster:  server.Connect("agent"),
		record:   func(e manager.Event) { t.Errorf("unexpected event: %s %s", e.Reason, e.Message) },
		announce: func(e api.Event) { t.Errorf("unexpected event: %s %s", e.Reason, e.Message) },
		mounter:  mounttest.NewFake(mount.Config{}),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx) }()
	return a, func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, a.lock.Close())
	}
}

// requireUp requires that the agent has a number of volumes, as desired, after a short time.
func requireUp(t *testing.T, a *agent, volumes int) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	state := a.manager.State()
	require.True(t, screen.IsSettled(state), "%v", screen.WithCauses(errors.New("not settled"), state))
	require.Len(t, state.Volumes, volumes)
}

// TestNoPluginAttaches: without -csi the agent has no node.Attacher, because no plugin of it attaches volumes.
func TestNoPluginAttaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{})
		createObjects(t, server.Direct())
		a, stop := startAgent(t, server)
		defer stop()
		for _, plugin := range a.plugins.Plugins() {
			_, attaches := volume.As[volume.AttachableVolumePlugin](plugin)
			require.False(t, attaches, plugin.GetPluginName())
		}
	})
}

// TestNodeIsDeleted: an agent whose Node is deleted keeps the volumes of its pods, sets up those of
// further pods, and tears down those of deleted pods.
func TestNodeIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{})
		cluster := server.Direct()
		createObjects(t, cluster)
		a, stop := startAgent(t, server)
		defer stop()
		requireUp(t, a, 5)
		require.NoError(t, cluster.Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}))
		time.Sleep(24 * time.Hour)
		requireUp(t, a, 5)
		_, err := cluster.Pods(v1.NamespaceDefault).Create(t.Context(), newPod("more", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), metav1.CreateOptions{})
		require.NoError(t, err)
		requireUp(t, a, 6)
		require.NoError(t, cluster.Pods(v1.NamespaceDefault).Delete(t.Context(), "web", *metav1.NewDeleteOptions(0)))
		requireUp(t, a, 1)
	})
}

// TestKubeIdle is TestIdle on a real API server, for a shorter time. The only exceptions are watches, and the Lease and
// the Node of -register.
func TestKubeIdle(t *testing.T) {
	c := newCluster(t)
	c.createPods()
	require.NoError(t, c.Admin.CoreV1().Pods(v1.NamespaceDefault).Delete(t.Context(), "broken", *metav1.NewDeleteOptions(0)))
	const idle = 5 * time.Second
	var last string
	since := time.Now() // the time of the last call
	err := c.runAgent(mounttest.NewFake(mount.Config{}), t.TempDir(), func(*agent) []string {
		for _, call := range c.account.Calls.Take() {
			if call.Resource != "leases" && call.Verb != "watch" && call.Right() != "get nodes" {
				since, last = time.Now(), call.Right()+" "+call.Namespace+" "+call.Name
			}
		}
		if last == "" || time.Since(since) < idle {
			return []string{"idle after " + last}
		}
		return nil
	})
	require.NoError(t, err)
}
