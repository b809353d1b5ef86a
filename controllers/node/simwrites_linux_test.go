package node_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simCluster is the cluster of a program. It checks the writes of status.
type simCluster struct {
	api.Cluster
	node *simNode
}

func (c simCluster) Nodes() api.Nodes { return simNodes{c.Cluster.Nodes(), c.node} }

func (c simCluster) PersistentVolumeClaims(namespace string) api.PersistentVolumeClaims {
	return simClaims{c.Cluster.PersistentVolumeClaims(namespace), c.node}
}

// checkEffect fails for a write that has not changed its object.
func (n *simNode) checkEffect(patch []byte, stored api.Object) {
	var written struct{ Metadata metav1.ObjectMeta }
	n.sim.must(json.Unmarshal(patch, &written))
	if written.Metadata.ResourceVersion == stored.GetResourceVersion() {
		n.sim.fail("a write changes nothing: %s", patch)
	}
}

// simNodes checks that a write of the node keeps the mounted volumes in use.
type simNodes struct {
	api.Nodes
	node *simNode
}

func (n simNodes) Patch(ctx context.Context, name string, patchType types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*v1.Node, error) {
	if n.node.hasCrashed() {
		return nil, errSimDown
	}
	var written v1.Node
	n.node.sim.must(json.Unmarshal(patch, &written))
	n.node.sim.log("  in use: %d volumes", len(written.Status.VolumesInUse))
	for _, target := range n.node.sim.mountPoints() {
		if disk := n.node.attachable(target); disk != nil && !slices.Contains(written.Status.VolumesInUse, disk.uniqueName()) {
			n.node.sim.fail("a write removes %s from volumesInUse, which is mounted at %s", disk.volume, target)
		}
	}
	stored, err := n.Nodes.Patch(ctx, name, patchType, patch, options, subresources...)
	if err == nil {
		n.node.sim.nodeWrites.Add(1)
		n.node.checkEffect(patch, stored)
	}
	return stored, err
}

// simClaims checks that a write of a claim shows the size that the volume has, and that the node does
// the steps of the node.
type simClaims struct {
	api.PersistentVolumeClaims
	node *simNode
}

func (c simClaims) Patch(ctx context.Context, name string, patchType types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*v1.PersistentVolumeClaim, error) {
	c.node.sim.log("  claim %s: %s", name, patch)
	c.check(name, patch)
	stored, err := c.PersistentVolumeClaims.Patch(ctx, name, patchType, patch, options, subresources...)
	if err == nil {
		c.node.checkEffect(patch, stored)
	}
	return stored, err
}

// check checks a write that can take effect: it is for the present state of the claim, or for any.
func (c simClaims) check(name string, patch []byte) {
	var written struct {
		Metadata metav1.ObjectMeta
		Status   struct {
			Capacity                  v1.ResourceList
			AllocatedResourceStatuses map[v1.ResourceName]*v1.ClaimResourceStatus
			Conditions                []struct {
				Type  v1.PersistentVolumeClaimConditionType
				Patch string `json:"$patch"`
			}
		}
	}
	s := c.node.sim
	s.must(json.Unmarshal(patch, &written))
	stored, err := s.cluster.PersistentVolumeClaims(simNamespace).Get(s.ctx, name, metav1.GetOptions{})
	if version := written.Metadata.ResourceVersion; err != nil || version != "" && version != stored.ResourceVersion {
		return
	}
	if state := stored.Status.AllocatedResourceStatuses[v1.ResourceStorage]; isControllerState(state) {
		s.fail("the node writes claim %s in state %s: %s", name, state, patch)
	}
	disk := c.node.storedDisk(stored.Spec.VolumeName)
	before, after := stored.Status.Capacity[v1.ResourceStorage], stored.Status.Capacity[v1.ResourceStorage]
	if size, ok := written.Status.Capacity[v1.ResourceStorage]; ok {
		after = size
	}
	if after.Cmp(before) < 0 || inGibibytes(after) > disk.fileSystem {
		s.fail("the status of claim %s changes from %s to %s, and its volume has %d GiB", name, before.String(), after.String(), disk.fileSystem)
	}
	goal := inGibibytes(stored.Status.AllocatedResources[v1.ResourceStorage])
	failed := slices.ContainsFunc(written.Status.Conditions, func(c struct {
		Type  v1.PersistentVolumeClaimConditionType
		Patch string `json:"$patch"`
	}) bool {
		return c.Patch == "" && c.Type == v1.PersistentVolumeClaimNodeResizeError
	})
	switch state, ok := written.Status.AllocatedResourceStatuses[v1.ResourceStorage]; {
	case ok && state == nil && disk.fileSystem < goal:
		s.fail("the expansion of claim %s to %d GiB ends, and its volume has %d GiB", name, goal, disk.fileSystem)
	case ok && state != nil && *state == v1.PersistentVolumeClaimNodeResizeInfeasible:
		failed = true
	}
	if failed && disk.refused < goal {
		s.fail("claim %s has failed to grow to %d GiB, which was not tried", name, goal)
	}
}

func isControllerState(state v1.ClaimResourceStatus) bool {
	return strings.HasPrefix(string(state), "Controller")
}

// storedDisk returns a copy of the disk of a volume.
func (n *simNode) storedDisk(volume string) simDisk {
	n.storage.Lock()
	defer n.storage.Unlock()
	if disk := n.diskOf(filepath.Base(volume)); disk != nil {
		return *disk
	}
	return simDisk{}
}
