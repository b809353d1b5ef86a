package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leases is the client of the Leases of nodes.
type leases interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// A heartbeat renews the Lease of a node, and reports the condition Ready. Without the Lease the cluster marks the node
// unreachable after 40 seconds, and deletes its pods after some minutes. Without the condition a controller detaches its
// volumes.
type heartbeat struct {
	leases   leases
	nodes    api.Nodes
	node     *v1.Node
	say      func(string)
	last     *coordinationv1.Lease // as the API server returned it; nil: it has to be read
	reported time.Time             // the last report of Ready
}

// Times of the kubelet.
const (
	leaseSeconds = 40
	renewPeriod  = leaseSeconds * time.Second / 4
	reportPeriod = 5 * time.Minute
)

// run renews and reports until ctx ends. It says each failure and tries again after the period.
func (h *heartbeat) run(ctx context.Context) error {
	ticker := time.NewTicker(renewPeriod)
	defer ticker.Stop()
	for {
		if err := h.beat(ctx); err != nil && ctx.Err() == nil {
			h.say(fmt.Sprintf("heartbeat of node %s: %v", h.node.Name, err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// beat renews the Lease, and reports Ready if the period is over or the cluster has marked the node as not Ready.
func (h *heartbeat) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewPeriod)
	defer cancel()
	if err := h.renew(ctx); err != nil {
		h.last = nil // another version may exist
		return fmt.Errorf("renew the Lease: %w", err)
	}
	current, err := h.currentNode(ctx, metav1.GetOptions{ResourceVersion: "0"}) // from the API server's cache
	if err != nil {
		return err
	}
	ready := readyOf(current)
	if ready.Status == v1.ConditionTrue && time.Since(h.reported) < reportPeriod {
		return nil
	}
	if err := h.reportReady(ctx, ready); err != nil {
		return fmt.Errorf("report Ready: %w", err)
	}
	h.reported = time.Now()
	return nil
}

// readyOf returns the condition Ready of a node, and its zero value if there is none.
func readyOf(node *v1.Node) v1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition
		}
	}
	return v1.NodeCondition{}
}

// reportReady reports the condition Ready of the Node. Last is the condition before.
func (h *heartbeat) reportReady(ctx context.Context, last v1.NodeCondition) error {
	now := metav1.Now()
	ready := v1.NodeCondition{
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "VolumeAgentReady", Message: "the agent keeps the volumes of the pods of this node",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	if last.Status == ready.Status {
		ready.LastTransitionTime = last.LastTransitionTime
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": h.node.UID},
		"status":   map[string]any{"conditions": []v1.NodeCondition{ready}},
	})
	if err != nil {
		return err
	}
	_, err = h.nodes.Patch(ctx, h.node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// renew sets the time of the Lease, and creates a missing one. A Lease that is missing, or that another Node of the name
// has, is written only while the Node exists: the garbage collector deletes the Lease with the Node.
func (h *heartbeat) renew(ctx context.Context) (err error) {
	if h.last == nil {
		h.last, err = h.leases.Get(ctx, h.node.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !h.isOwner(h.last) {
			if _, err := h.currentNode(ctx, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		if apierrors.IsNotFound(err) {
			h.last, err = h.leases.Create(ctx, h.renewed(&coordinationv1.Lease{}), metav1.CreateOptions{})
			return err
		}
	}
	if err == nil {
		h.last, err = h.leases.Update(ctx, h.renewed(h.last), metav1.UpdateOptions{})
	}
	return err
}

func (h *heartbeat) isOwner(lease *coordinationv1.Lease) bool {
	return slices.ContainsFunc(lease.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == h.node.UID })
}

// currentNode returns the Node of the start of the agent, as it is now. It is an error if that does not exist.
func (h *heartbeat) currentNode(ctx context.Context, options metav1.GetOptions) (*v1.Node, error) {
	current, err := h.nodes.Get(ctx, h.node.Name, options)
	if apierrors.IsNotFound(err) || err == nil && current.UID != h.node.UID {
		return nil, errors.New("the Node was deleted: restart the agent to create another one")
	}
	return current, err
}

// renewed returns a copy of a Lease that this node holds from now on. The Lease goes with its Node.
func (h *heartbeat) renewed(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	now, seconds := metav1.NowMicro(), int32(leaseSeconds)
	lease.Name = h.node.Name
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: h.node.Name, UID: h.node.UID}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &h.node.Name, &seconds, &now
	return lease
}
