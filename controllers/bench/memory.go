package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A memoryCluster is the size of a cluster in memory.
type memoryCluster struct {
	own   int // pods of the node whose agent is measured
	pods  int // all pods; the others are spread over the other nodes
	nodes int
}

// measureMemory measures the live heap of the agent of one node, in bytes, and prints it beside that
// of an informer of all pods.
func measureMemory(ctx context.Context, size memoryCluster, out io.Writer) (used int64, err error) {
	server := apitest.NewServer(apitest.Config{History: 1})
	if err := fill(ctx, server, size); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "volumekit-bench")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 0, err
	}
	before := heap()
	a, err := startAgent(ctx, agentConfig{
		cluster: server.Connect("agent"), node: size.nodeOf(0), mounter: mounttest.NewFake(mount.Config{}),
		root: filepath.Join(dir, "root"), disks: dir,
	})
	if err != nil {
		return 0, err
	}
	own, err := a.source.Pods(ctx)
	for _, pod := range own {
		err = errors.Join(err, a.manager.WaitForAttachAndMount(ctx, pod))
	}
	used = heap() - before
	runtime.KeepAlive(a)
	if err = errors.Join(err, a.stop()); err != nil {
		return 0, err
	}
	_, _ = fmt.Fprintf(out, "memory of the agent of a node with %d pods, %d pods and %d nodes in the cluster: %d KiB\n", len(own), size.pods, size.nodes, used>>10)
	return used, measureInformer(ctx, server.Connect("informer"), size.pods, out)
}

// measureInformer measures a cache of all pods, which programs without a field selector have.
func measureInformer(ctx context.Context, cluster api.Cluster, pods int, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	before := heap()
	cache := api.NewCache(cluster.Pods(""), api.CacheConfig{})
	ended := make(chan error, 1)
	go func() { ended <- cache.Run(ctx) }()
	err := cache.WaitForSync(ctx)
	used := heap() - before
	if found := len(cache.List()); err == nil && found != pods {
		err = fmt.Errorf("the informer has %d pods, want %d", found, pods)
	}
	cancel()
	if err = errors.Join(err, <-ended); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "memory of an informer of all %d pods: %d KiB\n", pods, used>>10)
	return nil
}

// fill creates nodes and pods, with the ConfigMaps and Secrets of the pods of the first node.
func fill(ctx context.Context, server *apitest.Server, size memoryCluster) error {
	cluster, options := server.Direct(), metav1.CreateOptions{}
	if err := createAccount(ctx, cluster); err != nil {
		return err
	}
	for i := range size.nodes {
		if _, err := cluster.Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}}, options); err != nil {
			return err
		}
	}
	for i := range size.pods {
		pod := newPod(fmt.Sprint("pod-", i))
		pod.Spec.NodeName = string(size.nodeOf(i))
		pod.Spec.Volumes[3].VolumeSource = v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}} // the disk of a real node
		if i < size.own {
			if err := createContent(ctx, cluster, pod.Name); err != nil {
				return err
			}
		}
		if _, err := cluster.Pods(namespace).Create(ctx, pod, options); err != nil {
			return err
		}
	}
	return nil
}

// nodeOf returns the node of a pod. The first node has no other pods than its own.
func (s memoryCluster) nodeOf(pod int) types.NodeName {
	if pod < s.own {
		return "node-0"
	}
	return types.NodeName(fmt.Sprint("node-", 1+pod%(s.nodes-1)))
}

// heap returns the size of the live heap, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // with the finalizers' objects
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
