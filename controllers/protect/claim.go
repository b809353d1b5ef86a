package protect

import (
	"context"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/claimindex"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A podRule reports whether a pod of the namespace of a claim uses the claim.
type podRule func(*v1.Pod, *v1.PersistentVolumeClaim) bool

// handleClaim protects a claim and reports whether it is unused.
func (c *Controller) handleClaim(ctx context.Context, key api.Key) (workers.Result, error) {
	result, err := c.ofClaims.handle(ctx, key)
	if err != nil || !c.config.ReportUnused {
		return result, err
	}
	again, err := c.reportUnused(ctx, key)
	return workers.Result{After: max(result.After, again)}, err
}

// inCache returns a function that reports whether a pod in the cache uses a claim.
func (c *Controller) inCache(uses podRule) func(*v1.PersistentVolumeClaim) bool {
	return func(claim *v1.PersistentVolumeClaim) bool {
		pods, err := claimindex.Pods(c.pods, api.KeyOf(claim))
		return err == nil && slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return uses(pod, claim) })
	}
}

// onServer returns a function that reports whether a pod on the API server uses a claim. The claims of a
// namespace share the lists: each one receives a list that begins after its call, and so after the
// deletion of the claim.
func (c *Controller) onServer(uses podRule) func(context.Context, *v1.PersistentVolumeClaim) (bool, error) {
	return func(ctx context.Context, claim *v1.PersistentVolumeClaim) (bool, error) {
		pods, err := c.podLists.Get(ctx, claim.Namespace)
		return slices.ContainsFunc(pods, func(pod v1.Pod) bool { return uses(&pod, claim) }), err
	}
}

// scheduled selects the pods that keep claims.
const scheduled = "spec.nodeName!="

// listPods returns the pods of a namespace that may use claims, as the API server has them now: the list
// has no resourceVersion.
func (c *Controller) listPods(ctx context.Context, namespace string) ([]v1.Pod, error) {
	options := metav1.ListOptions{FieldSelector: scheduled}
	if c.config.ReportUnused {
		options.FieldSelector = ""
	}
	list, err := c.config.Cluster.Pods(namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return list.Items, nil
}
