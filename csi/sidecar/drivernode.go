package sidecar

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A driverNode is a node with the driver.
type driverNode struct {
	name   string
	keys   []string          // of the driver's topology, sorted
	labels map[string]string // of the node
}

// term returns the topology of the node. ok is false if the driver has none, or the node lacks a label of it.
func (n driverNode) term() (t term, ok bool) {
	for _, key := range n.keys {
		value, ok := n.labels[key]
		if !ok {
			return nil, false
		}
		t = append(t, segment{key, value})
	}
	return t, len(t) > 0
}

// termsOf returns the topologies of nodes whose driver has these keys; nil: any keys. The topologies are
// sorted and distinct.
func termsOf(nodes []driverNode, keys []string) (all []term) {
	for _, n := range nodes {
		if keys != nil && !slices.Equal(keys, n.keys) {
			continue
		}
		if t, ok := n.term(); ok {
			all = append(all, t)
		}
	}
	return distinct(all)
}

// topologyKeys returns the sorted keys of a driver on a node.
func topologyKeys(node *storagev1.CSINode, driver string) []string {
	for _, d := range node.Spec.Drivers {
		if d.Name == driver {
			keys := slices.Clone(d.TopologyKeys)
			slices.Sort(keys)
			return slices.Compact(keys)
		}
	}
	return nil
}

// driverNodes are the nodes with a driver, by caches.
type driverNodes struct {
	driver   string
	cluster  api.CSINodesGetter
	csiNodes *api.Cache[*storagev1.CSINode]
	nodes    *api.Cache[*v1.Node]
}

// waitForSync waits until the caches have all nodes, or returns the cause of ctx.
func (d *driverNodes) waitForSync(ctx context.Context) error {
	if err := d.csiNodes.WaitForSync(ctx); err != nil {
		return err
	}
	return d.nodes.WaitForSync(ctx)
}

// all returns the nodes that have a topology of the driver.
func (d *driverNodes) all() (all []driverNode) {
	for _, csiNode := range d.csiNodes.List() {
		keys := topologyKeys(csiNode, d.driver)
		if len(keys) == 0 {
			continue
		}
		if node, ok := d.nodes.Get(api.Key{Name: csiNode.Name}); ok {
			all = append(all, driverNode{csiNode.Name, keys, node.Labels})
		}
	}
	return all
}

// selected returns a node, with the keys of the driver. A driver that the cache does not show on the node is
// confirmed by the API server: its registration may be a moment old.
func (d *driverNodes) selected(ctx context.Context, node *v1.Node) (*driverNode, error) {
	if node == nil {
		return nil, nil
	}
	csiNode, ok := d.csiNodes.Get(api.Key{Name: node.Name})
	if !ok || len(topologyKeys(csiNode, d.driver)) == 0 {
		live, err := d.cluster.CSINodes().Get(ctx, node.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return &driverNode{name: node.Name}, nil
		case err != nil:
			return nil, volume.AsTransient(fmt.Errorf("read CSINode %q: %w", node.Name, err))
		}
		csiNode = live
	}
	return &driverNode{node.Name, topologyKeys(csiNode, d.driver), node.Labels}, nil
}

// follow calls changed after each change of a topology, until the stops are called.
func (d *driverNodes) follow(changed func()) (stops []func(), err error) {
	_, stopCSINodes, err := d.csiNodes.Subscribe(func(c api.Change[*storagev1.CSINode]) {
		if !c.Replay && !slices.Equal(d.keysOf(c.Old), d.keysOf(c.New)) {
			changed()
		}
	})
	if err != nil {
		return nil, err
	}
	_, stopNodes, err := d.nodes.Subscribe(func(c api.Change[*v1.Node]) {
		if !c.Replay && (c.Old == nil || c.New == nil || !maps.Equal(c.Old.Labels, c.New.Labels)) {
			changed()
		}
	})
	if err != nil {
		stopCSINodes()
		return nil, err
	}
	return []func(){stopCSINodes, stopNodes}, nil
}

func (d *driverNodes) keysOf(node *storagev1.CSINode) []string {
	if node == nil {
		return nil
	}
	return topologyKeys(node, d.driver)
}
