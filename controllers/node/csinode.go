package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A CSINodeCluster returns the clients that a [CSINode] needs. An api.Cluster is one.
type CSINodeCluster interface {
	api.NodesGetter
	api.CSINodesGetter
}

// CSINodeConfig configures a [CSINode]. Both fields are required.
type CSINodeConfig struct {
	Cluster CSINodeCluster
	// Node is the name of this node.
	Node types.NodeName
}

// A CSINode writes the CSI drivers of this node to its CSINode object and to its Node object, as a
// kubelet does. It is a registration.NodeWriter of module csi. It reads the objects before each
// write, and holds no state: another program may write them, too. Its methods are safe for
// concurrent use.
//
// Errors are transient (volume.KindOf), and the next call completes the write, apart from
// refusals that are the driver's fault: a label of the topology that the node has with another
// value, and an entry that the API server finds invalid.
type CSINode struct {
	config CSINodeConfig
	writes keylock.Map // locked, for "", by each call
}

// NewCSINode returns a CSINode. The error for an invalid configuration wraps a *field.Error.
func NewCSINode(config CSINodeConfig) (*CSINode, error) {
	at := field.NewPath("CSINodeConfig")
	switch {
	case config.Cluster == nil:
		return nil, fmt.Errorf("node: %w", field.Required(at.Child("Cluster"), "a CSINode is written to a cluster"))
	case config.Node == "":
		return nil, fmt.Errorf("node: %w", field.Required(at.Child("Node"), "a CSINode has the name of its node"))
	}
	return &CSINode{config: config}, nil
}

// freshTries is the number of attempts of a write that conflicts with other writers.
const freshTries = 5

// PutDriver sets the labels of the topology and the node ID of the driver on the Node object, and
// adds the driver to the CSINode object, which it creates if there is none. An entry of the driver
// with other values is replaced by a removal and an addition, as the API server permits no change. A
// CSINode object of an earlier Node object of this name is replaced. Without a difference nothing is
// written.
func (c *CSINode) PutDriver(ctx context.Context, driver storagev1.CSINodeDriver, topology map[string]string) error {
	return c.write(ctx, "register", driver.Name, func() error {
		node, err := c.patchNode(ctx, func(node *v1.Node) error {
			if err := addTopology(node, topology); err != nil {
				return err
			}
			return setNodeID(node, driver.Name, driver.NodeID)
		})
		if err != nil {
			return err
		}
		return c.putEntry(ctx, node, driver)
	})
}

// RemoveDriver removes the driver's entry from the CSINode object, and its node ID from the Node
// object. Labels of its topology stay, as other drivers and volumes may use them. A driver without an
// entry is no error, nor is a missing object.
func (c *CSINode) RemoveDriver(ctx context.Context, name string) error {
	return c.write(ctx, "unregister", name, func() error {
		object, err := c.config.Cluster.CSINodes().Get(ctx, string(c.config.Node), metav1.GetOptions{})
		if err == nil {
			_, err = c.updateEntries(ctx, object, withoutDriver(object, name))
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, err = c.patchNode(ctx, func(node *v1.Node) error { return setNodeID(node, name, "") })
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// write runs a write, again after a conflict, and returns its error with its kind.
func (c *CSINode) write(ctx context.Context, operation, driver string, work func() error) error {
	unlock, err := c.writes.Lock(ctx, "")
	if err != nil {
		return err
	}
	defer unlock()
	for range freshTries {
		if err = work(); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s driver %q on node %s: %w", operation, driver, c.config.Node, err)
	if errors.As(err, new(*topologyError)) || apierrors.IsInvalid(err) {
		return err
	}
	return volume.AsTransient(err)
}

// patchNode changes labels and annotations of the Node object, and returns the object. The patch is of
// the status, for which agents of nodes have a permission, and fails with a conflict if the object has
// changed since it was read.
func (c *CSINode) patchNode(ctx context.Context, change func(*v1.Node) error) (*v1.Node, error) {
	nodes := c.config.Cluster.Nodes()
	node, err := nodes.Get(ctx, string(c.config.Node), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	changed := node.DeepCopy()
	if err := change(changed); err != nil {
		return nil, err
	}
	metadata := map[string]any{}
	if difference := mergePatch(node.Labels, changed.Labels); len(difference) > 0 {
		metadata["labels"] = difference
	}
	if difference := mergePatch(node.Annotations, changed.Annotations); len(difference) > 0 {
		metadata["annotations"] = difference
	}
	if len(metadata) == 0 {
		return node, nil
	}
	metadata["resourceVersion"] = node.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	return nodes.Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
}

// mergePatch returns the merge patch from one map to another one.
func mergePatch(from, to map[string]string) map[string]any {
	patch := map[string]any{}
	for key, value := range to {
		if last, ok := from[key]; !ok || last != value {
			patch[key] = value
		}
	}
	for key := range from {
		if _, ok := to[key]; !ok {
			patch[key] = nil
		}
	}
	return patch
}

// A topologyError is the refusal of a topology that contradicts the labels of the node.
type topologyError struct{ key, value, label string }

func (e *topologyError) Error() string {
	return fmt.Sprintf("topology %s=%s: the node has the label %s=%s", e.key, e.value, e.key, e.label)
}

// addTopology adds the topology to the labels of a node. Labels with other values are not replaced:
// drivers that disagree would overwrite each other's, and move volumes that exist.
func addTopology(node *v1.Node, topology map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(topology)) {
		if label, ok := node.Labels[key]; ok && label != topology[key] {
			return &topologyError{key, topology[key], label}
		}
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, topology)
	return nil
}

// nodeIDAnnotation has the node IDs of all drivers, as a JSON object from driver to ID.
const nodeIDAnnotation = "csi.volume.kubernetes.io/nodeid"

// setNodeID sets the node ID of a driver in the annotation of a node; the ID "" removes it. A value
// that is no JSON object is replaced.
func setNodeID(node *v1.Node, driver, id string) error {
	ids := map[string]string{}
	if json.Unmarshal([]byte(node.Annotations[nodeIDAnnotation]), &ids) != nil || ids == nil {
		ids = map[string]string{}
	}
	switch last, ok := ids[driver]; {
	case id == "" && !ok, ok && last == id:
		return nil
	case id == "":
		delete(ids, driver)
	default:
		ids[driver] = id
	}
	if len(ids) == 0 {
		delete(node.Annotations, nodeIDAnnotation)
		return nil
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[nodeIDAnnotation] = string(text)
	return nil
}

// putEntry adds a driver to the CSINode object of a node.
func (c *CSINode) putEntry(ctx context.Context, node *v1.Node, driver storagev1.CSINodeDriver) error {
	objects := c.config.Cluster.CSINodes()
	object, err := objects.Get(ctx, node.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = objects.Create(ctx, newCSINode(node, driver), metav1.CreateOptions{})
		return err
	case err != nil:
		return err
	case !isOwnedBy(object, node):
		// The object describes an earlier node of this name, with other drivers.
		err := objects.Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, err = objects.Create(ctx, newCSINode(node, driver), metav1.CreateOptions{})
		return err
	}
	i := slices.IndexFunc(object.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver.Name })
	if i >= 0 && isSameEntry(object.Spec.Drivers[i], driver) {
		return nil
	}
	others := withoutDriver(object, driver.Name)
	if object, err = c.updateEntries(ctx, object, others); err != nil {
		return err
	}
	_, err = c.updateEntries(ctx, object, append(others, driver))
	return err
}

// updateEntries replaces the drivers of a CSINode object, unless they are as many as before.
func (c *CSINode) updateEntries(ctx context.Context, object *storagev1.CSINode, drivers []storagev1.CSINodeDriver) (*storagev1.CSINode, error) {
	if len(drivers) == len(object.Spec.Drivers) {
		return object, nil
	}
	object = object.DeepCopy()
	object.Spec.Drivers = slices.Clone(drivers)
	return c.config.Cluster.CSINodes().Update(ctx, object, metav1.UpdateOptions{})
}

// withoutDriver returns the entries of the other drivers.
func withoutDriver(object *storagev1.CSINode, name string) []storagev1.CSINodeDriver {
	return slices.DeleteFunc(slices.Clone(object.Spec.Drivers), func(d storagev1.CSINodeDriver) bool { return d.Name == name })
}

// isSameEntry reports whether two entries are equal, apart from the order of the topology keys.
func isSameEntry(a, b storagev1.CSINodeDriver) bool {
	a.TopologyKeys, b.TopologyKeys = slices.Sorted(slices.Values(a.TopologyKeys)), slices.Sorted(slices.Values(b.TopologyKeys))
	return equality.Semantic.DeepEqual(a, b)
}

// newCSINode returns the CSINode object of a node with one driver.
func newCSINode(node *v1.Node, driver storagev1.CSINodeDriver) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver}},
	}
}

// isOwnedBy reports whether a CSINode object belongs to a Node object.
func isOwnedBy(object *storagev1.CSINode, node *v1.Node) bool {
	return slices.ContainsFunc(object.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == "Node" && r.Name == node.Name && r.UID == node.UID
	})
}
