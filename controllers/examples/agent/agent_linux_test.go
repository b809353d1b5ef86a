package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/examples/agent"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLength: docs/cluster.md promises 30 lines.
func TestLength(t *testing.T) {
	text, err := os.ReadFile("agent.go")
	require.NoError(t, err)
	_, function, ok := strings.Cut(string(text), "\nfunc KeepVolumes")
	require.True(t, ok)
	require.LessOrEqual(t, strings.Count(function, "\n"), 30)
}

// A pod is bound to the node, and its ConfigMap is in its volume.
func Example() {
	root, err := os.MkdirTemp("", "")
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(root) }()
	server := apitest.NewServer(apitest.Config{}) // a real agent: kubeclient.New(clientset)
	ctx, cancel := context.WithCancel(context.Background())
	pod, err := createPod(ctx, server)
	if err != nil {
		fmt.Println(err)
	}
	mounter := mounttest.NewFake(mount.Config{}) // a real agent: mount.New(mount.Config{})
	started := func(volumes *manager.Manager) {
		go func() {
			defer cancel()
			err := volumes.WaitForAttachAndMount(ctx, pod)
			text, err2 := os.ReadFile(filepath.Join(volumes.GetMountedVolumesForPod(pod.UID)["settings"].Path, "color"))
			fmt.Println(string(text), err, err2)
		}()
	}
	err = agent.KeepVolumes(ctx, agent.Config{
		Cluster: server.Connect("agent"), Node: "node-1", Mounter: mounter, Root: root, Started: started,
	})
	fmt.Println(err)
	// Output:
	// blue <nil> <nil>
	// <nil>
}

func createPod(ctx context.Context, server *apitest.Server) (*v1.Pod, error) {
	cluster, options := server.Direct(), metav1.CreateOptions{}
	settings := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"color": "blue"}}
	if _, err := cluster.ConfigMaps("default").Create(ctx, settings, options); err != nil {
		return nil, err
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: v1.PodSpec{
			NodeName:   "node-1",
			Containers: []v1.Container{{Name: "web", Image: "web", VolumeMounts: []v1.VolumeMount{{Name: "settings", MountPath: "/settings"}}}},
			Volumes: []v1.Volume{{Name: "settings", VolumeSource: v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}}}},
		},
	}
	return cluster.Pods("default").Create(ctx, pod, options)
}
