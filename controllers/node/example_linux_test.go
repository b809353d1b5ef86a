package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runAgent sets up the volumes of the pods that are bound to a node, until ctx ends. A program calls
// it with kubeclient.New(clientset) and mount.New(mount.Config{}), and starts the containers of a pod
// after WaitForAttachAndMount.
func runAgent(ctx context.Context, cluster node.Cluster, mounter mount.Interface, root string, serve func(*manager.Manager)) error {
	source, err := node.NewSource(node.Config{Cluster: cluster, Node: "node-1"})
	if err != nil {
		return err
	}
	host, err := volume.NewHost(ctx, root, volume.WithNodeName("node-1"))
	if err != nil {
		return err
	}
	files := content.Config{Mounter: mounter, ConfigMaps: source, Secrets: source, Tokens: source}
	plugins, err := volume.NewVolumePluginMgr(ctx, host,
		content.NewConfigMap(files), content.NewSecret(files), content.NewDownwardAPI(files), content.NewProjected(files))
	if err != nil {
		return err
	}
	m, err := manager.New(manager.Config{Plugins: plugins, Mounter: mounter, Pods: source, Claims: source})
	if err != nil {
		return err
	}
	defer source.SubscribeContent(m.MarkRemountRequired)()
	go func() { _ = source.Run(ctx) }()
	go serve(m)
	return m.Run(ctx)
}

// An agent on an API server, which here is in memory: a pod that is bound to the node gets its
// ConfigMap, and a change of it.
func Example() {
	root, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	ctx, cancel := context.WithCancel(context.Background())
	server := apitest.NewServer(apitest.Config{})
	cluster := server.Direct()
	settings, _ := cluster.ConfigMaps("default").Create(ctx, &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"key": "blue"},
	}, metav1.CreateOptions{})
	web := pod("web", byConfigMap("settings"))
	web.Namespace = "default"
	web, err = cluster.Pods("default").Create(ctx, web, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
	}

	_ = runAgent(ctx, server.Connect("agent"), mounttest.NewFake(mount.Config{}), root, func(m *manager.Manager) {
		defer cancel()
		if err := m.WaitForAttachAndMount(ctx, web); err != nil {
			fmt.Println(err)
		}
		file := filepath.Join(m.GetMountedVolumesForPod(web.UID)["v0"].Path, "key")
		text, err := os.ReadFile(file)
		fmt.Println(string(text), err)
		settings.Data["key"] = "green"
		_, _ = cluster.ConfigMaps("default").Update(ctx, settings, metav1.UpdateOptions{})
		for string(text) != "green" { // a read at the moment of the change may find the old directory gone
			text, err = os.ReadFile(file)
		}
		fmt.Println(string(text), err)
	})
	// Output:
	// blue <nil>
	// green <nil>
}
