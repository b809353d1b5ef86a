package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/internal/cli"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waitForNode returns the result of join. During an outage of the API server it waits without a time
// limit, and returns the cause of ctx if ctx ends first.
func (a *agent) waitForNode(ctx context.Context) (*v1.Node, error) {
	return service.Retry(ctx, a.join, func(err error) bool {
		if !isOutage(err) {
			return false
		}
		// The screen shows nothing before the agent runs.
		_, _ = fmt.Fprintf(a.out, "%s Waiting for the API server: %s\n", time.Now().Format(time.TimeOnly), cli.OneLine(err.Error()))
		return true
	})
}

// isOutage reports whether a later call can succeed without a change by the user: after a failed
// connection, and after an error of the API server itself, but not after a refusal.
func isOutage(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsUnexpectedServerError(err) {
		return true
	}
	code := status.Status().Code
	return code < 400 || code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests
}

// join returns the Node object of this node, and creates it first if -register permits. Its labels
// decide which volumes fit the node.
func (a *agent) join(ctx context.Context) (*v1.Node, error) {
	nodes := a.cluster.Nodes()
	this, err := nodes.Get(ctx, a.node, metav1.GetOptions{})
	if !a.register {
		if apierrors.IsNotFound(err) {
			err = fmt.Errorf("%w: create the Node, or see -register", err)
		}
		return this, err
	}
	if apierrors.IsNotFound(err) {
		this, err = nodes.Create(ctx, newNode(a.node), metav1.CreateOptions{})
	}
	if err == nil {
		a.heartbeat = &heartbeat{leases: a.leases, nodes: nodes, node: this, report: a.screen.Say}
	}
	return this, err
}

// newNode returns a node with the labels that the kubelet gives to it. Its kubelet version stays
// empty, and no condition says that it is ready.
func newNode(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		v1.LabelHostname: name, v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH,
	}}}
}

// leases is the client of the Leases of nodes.
type leases interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// A heartbeat renews the Lease of a node. Without it the cluster marks the node unreachable after 40
// seconds, and deletes its pods after some minutes.
type heartbeat struct {
	leases leases
	nodes  api.Nodes
	node   *v1.Node
	report func(string)
	last   *coordinationv1.Lease // as the API server returned it; nil: it has to be read
}

// Times of the kubelet's Lease.
const (
	leaseSeconds = 40
	renewPeriod  = leaseSeconds * time.Second / 4
)

// run renews the Lease until ctx ends. It reports failures and tries again after the period.
func (h *heartbeat) run(ctx context.Context) error {
	ticker := time.NewTicker(renewPeriod)
	defer ticker.Stop()
	for {
		if err := h.renew(ctx); err != nil && ctx.Err() == nil {
			h.report(fmt.Sprintf("lease of node %s: %v", h.node.Name, err))
			h.last = nil // another version may exist
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// renew sets the time of the Lease, and creates a missing one. Without its Node it writes none: the
// garbage collector deletes the Lease of a deleted Node, and another Node of the name may have one.
func (h *heartbeat) renew(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, renewPeriod)
	defer cancel()
	if h.last == nil {
		h.last, err = h.leases.Get(ctx, h.node.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !h.isOwner(h.last) {
			if err := h.checkNode(ctx); err != nil {
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

// checkNode returns an error if the Node of the start of the agent does not exist.
func (h *heartbeat) checkNode(ctx context.Context) error {
	current, err := h.nodes.Get(ctx, h.node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && current.UID != h.node.UID {
		return errors.New("the Node was deleted: restart the agent to create another one")
	}
	return err
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
