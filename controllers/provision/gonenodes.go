package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// goneResync is the default period at which a controller of ForGoneNodes looks for nodes that are gone.
const goneResync = 5 * time.Minute

// ForGoneNodes returns the configuration of a controller for the nodes that do not exist any more, where each node has
// a provisioner of its own. Run one in the cluster, such as by leader election. The names, the finalizer and
// UnguardedVolumes of config must be those of the nodes' controllers. ForGoneNodes replaces Provisioner, Qualifier and
// DeletionGuard. Without a Resync it sets one of 5 minutes: a node may be gone for that long before it is noticed.
//
// From a claim without a volume whose selected node is gone the controller removes the node, so that the scheduler selects
// another one, with an event ProvisioningFailed; and from each claim of such a node the finalizer, if it has one. The storage of an
// unfinished call is taken for gone with the node: it stays if the Node object alone was deleted, and the node's
// provisioner ends before it has stored the volume.
//
// Of a volume whose node is gone the controller deletes no storage. Five minutes after the volume is released it has the
// event VolumeFailedDelete, once. When a user deletes the volume, the controller removes its finalizer.
//
// nodes is a cache of all nodes, which the caller runs; until it has synced no node counts as gone. hostOf returns the
// hostname of the node that has the storage of a volume, and false for a volume that is not a node's, as
// local.ProvisionedFor does. A volume's node is gone if no Node has the hostname as its label kubernetes.io/hostname, and
// none lacks the label. Both are required.
//
// The controller requires the rights of a [Controller], without those to create and delete volumes and to get attributes
// classes, and those to list and watch nodes.
func ForGoneNodes(config Config, nodes *api.Cache[*v1.Node], hostOf func(*v1.PersistentVolume) (hostname string, ok bool)) Config {
	gone := goneNodes{config.Cluster, nodes, hostOf}
	config.Provisioner, config.Qualifier, config.DeletionGuard = gone, gone.hasClaim, gone.hasVolume
	config.Resync = cmp.Or(config.Resync, goneResync)
	return config
}

// goneNodes is the Provisioner of the nodes that do not exist any more. It has no storage.
type goneNodes struct {
	cluster Cluster
	nodes   *api.Cache[*v1.Node]
	hostOf  func(*v1.PersistentVolume) (string, bool)
}

// check returns an error if an argument of ForGoneNodes is missing.
func (g goneNodes) check() error {
	at := field.NewPath("ForGoneNodes")
	switch {
	case g.nodes == nil:
		return fmt.Errorf("provision: %w", field.Required(at.Child("nodes"), "the nodes that exist"))
	case g.hostOf == nil:
		return fmt.Errorf("provision: %w", field.Required(at.Child("hostOf"), "the nodes of volumes"))
	}
	return nil
}

// hasClaim reports whether the selected node of a claim is gone, as far as the cache tells.
func (g goneNodes) hasClaim(_ context.Context, claim *v1.PersistentVolumeClaim) bool {
	name := selectedNode(claim)
	if name == "" || !g.nodes.HasSynced() {
		return false
	}
	_, exists := g.nodes.Get(api.Key{Name: name})
	return !exists
}

// hasVolume reports whether the node of a volume is gone, as far as the cache tells. A node without a hostname could be
// the volume's.
func (g goneNodes) hasVolume(_ context.Context, pv *v1.PersistentVolume) bool {
	hostname, ok := g.hostOf(pv)
	if !ok || !g.nodes.HasSynced() {
		return false
	}
	for _, node := range g.nodes.List() {
		if label, ok := node.Labels[v1.LabelHostname]; !ok || label == hostname {
			return false
		}
	}
	return true
}

// Provision is never called.
func (g goneNodes) Provision(context.Context, Options) (*v1.PersistentVolume, error) {
	return nil, volume.ErrNotSupported
}

// SupportsSource implements [volume.SourceProvisioner]: the claims of volume populators must leave the node, too.
func (g goneNodes) SupportsSource(context.Context, schema.GroupKind) bool { return true }

// Delete deletes nothing. It returns nil for a volume that a user has deleted, so that its object goes, after the API
// server has confirmed that no node has its hostname.
func (g goneNodes) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	hostname, ok := g.hostOf(pv)
	if problems := input.Problems(validation.IsValidLabelValue, hostname); !ok || len(problems) > 0 {
		return &volume.IgnoredError{Reason: "the volume is not one of a node"}
	}
	byHost := metav1.ListOptions{LabelSelector: labels.Set{v1.LabelHostname: hostname}.String()}
	found, err := g.cluster.Nodes().List(ctx, byHost)
	switch {
	case err != nil:
		return volume.AsTransient(fmt.Errorf("list nodes with the hostname %s: %w", input.Quote(hostname), err))
	case len(found.Items) > 0:
		return volume.AsTransient(errors.New("the node exists again"))
	case pv.DeletionTimestamp == nil:
		return &volume.IgnoredError{Reason: fmt.Sprintf("the node with the hostname %s is gone; delete the volume to give it up", input.Quote(hostname))}
	}
	return nil
}

func (c *Controller) isForGoneNodes() bool {
	_, ok := c.config.Provisioner.(goneNodes)
	return ok
}

// leaveGoneNode removes the finalizer from a claim whose selected node does not exist any more and, if it has no volume,
// the node. It confirms by a read from the API server that the node is gone, and patches the version of the claim from
// before.
func (c *Controller) leaveGoneNode(ctx context.Context, v claimView) error {
	if v.claim == nil || v.role == foreign {
		return nil
	}
	hasVolume := v.claim.Spec.VolumeName != "" || v.isStored()
	if hasVolume && !v.hasGuard() {
		return nil
	}
	_, missing, err := c.readNamedNode(ctx, selectedNode(v.claim))
	if err != nil || missing == nil { // the node exists again
		return err
	}
	p := objectpatch.Of(v.claim).OfVersion(v.claim).WithoutFinalizer(ClaimFinalizer)
	if !hasVolume {
		p = p.WithoutAnnotation(SelectedNodeAnnotation)
	}
	if err := c.patchClaim(ctx, v.claim, p); err != nil {
		return err
	}
	if !hasVolume {
		c.announce(v.claim, v1.EventTypeWarning, reasonFailed, missing.Error())
	}
	return nil
}
