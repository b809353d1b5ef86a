package clustertest

import (
	"context"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A NodeConfig describes a node. Its volumes appear below Root, which must exist.
type NodeConfig struct {
	Cluster api.Cluster
	Name    string
	Mounter mount.Interface
	Root    string
	Plugins []volume.VolumePlugin
}

// A Node has the manager of the volumes of its pods.
type Node struct {
	Volumes *manager.Manager
	source  *node.Source
}

// NewNode returns a node, which Run runs.
func NewNode(ctx context.Context, c NodeConfig) (*Node, error) {
	source, err := node.NewSource(node.Config{Cluster: c.Cluster, Node: types.NodeName(c.Name)})
	if err != nil {
		return nil, err
	}
	host, err := volume.NewHost(ctx, c.Root, volume.WithNodeName(types.NodeName(c.Name)))
	if err != nil {
		return nil, err
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, c.Plugins...)
	if err != nil {
		return nil, err
	}
	volumes, err := manager.New(manager.Config{Plugins: plugins, Mounter: c.Mounter, Pods: source, Claims: source})
	if err != nil {
		return nil, err
	}
	return &Node{volumes, source}, nil
}

// Run sets up and tears down volumes until ctx ends; then it returns nil.
func (n *Node) Run(ctx context.Context) error { return cli.RunAll(ctx, n.source.Run, n.Volumes.Run) }

// NewPod returns a pod of a node whose container has the volume of a claim, named "data".
func NewPod(name, node string, claim *v1.PersistentVolumeClaim) *v1.Pod {
	source := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: name},
		Spec: v1.PodSpec{
			NodeName:   node,
			Containers: []v1.Container{{Name: "c", Image: "i", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes:    []v1.Volume{{Name: "data", VolumeSource: source}},
		},
	}
}
