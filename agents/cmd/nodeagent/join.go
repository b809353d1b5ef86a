package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/controllers/attach"
	"github.com/volumekit/volumekit/controllers/service"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// join returns the Node object of this node, and creates it first if -register permits, which also sets the heartbeat.
// The labels decide which volumes fit the node. With -csi the annotation lets a controller attach the node's volumes.
func (a *agent) join(ctx context.Context) (*v1.Node, error) {
	nodes := a.cluster.Nodes()
	this, err := nodes.Get(ctx, a.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !a.register {
		err = fmt.Errorf("%w: create the Node, or see -register", err)
	}
	if apierrors.IsNotFound(err) && a.register {
		this, err = nodes.Create(ctx, newNode(a.node), metav1.CreateOptions{})
	}
	if err == nil && a.csi && this.Annotations[attach.ManagedAnnotation] != "true" {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, attach.ManagedAnnotation)
		this, err = nodes.Patch(ctx, a.node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err == nil && a.register {
		a.heartbeat = &heartbeat{leases: a.leases, nodes: nodes, node: this, say: a.screen.Say}
	}
	return this, err
}

// noContainers is the key of the taint of a node that the agent has created: nothing runs the containers of a pod that
// the scheduler would bind to the node.
const noContainers = "volumekit.io/no-containers"

// newNode returns a node with the labels that the kubelet gives to it. Its kubelet version stays empty.
func newNode(name string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1.LabelHostname: name, v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH,
		}},
		Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: noContainers, Effect: v1.TaintEffectNoSchedule}}},
	}
}
