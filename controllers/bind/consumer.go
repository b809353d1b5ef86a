package bind

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/claimindex"
	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// mostNamed is the number of pods that an event names: any number of pods may use a claim, and an event whose text
// changes with each of them would be one event for each.
const mostNamed = 10

// isUnscheduled reports whether a pod waits for a node.
func isUnscheduled(pod *v1.Pod) bool {
	return pod != nil && pod.Spec.NodeName == "" && !claimindex.IsFinished(pod)
}

// awaitsConsumer reports whether a claim of a class waits for its first consumer.
func awaitsConsumer(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	return class != nil && storageclass.WaitsForConsumer(class) && claim.Spec.VolumeName == "" && !has(claim, provision.SelectedNodeAnnotation)
}

// consumersOf returns the names of the pods without a node that use a claim which awaits its first consumer, in
// their order. Without Config.Pods it returns none.
func (c *Controller) consumersOf(v claimView) (names []string, err error) {
	if c.config.Pods == nil || !awaitsConsumer(v.claim, v.class) {
		return nil, nil
	}
	pods, err := claimindex.Pods(c.config.Pods, api.KeyOf(v.claim))
	if err != nil {
		return nil, fmt.Errorf("pods of claim %s: %w", api.KeyOf(v.claim), err)
	}
	for _, pod := range pods {
		if isUnscheduled(pod) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// consumerNote returns the event of a claim that waits for its first consumer.
func consumerNote(pods []string) note {
	switch n := len(pods); {
	case n == 0:
		return tell(reasonWaitForFirstConsumer, "waiting for first consumer to be created before binding")
	case n == 1:
		return tell(reasonWaitForPodScheduled, "waiting for pod %s to be scheduled", pods[0])
	case n > mostNamed:
		return tell(reasonWaitForPodScheduled, "waiting for pods %s and others to be scheduled", strings.Join(pods[:mostNamed], ","))
	}
	return tell(reasonWaitForPodScheduled, "waiting for pods %s to be scheduled", strings.Join(pods, ","))
}

// addPod queues the claims that await their first consumer, of a pod that begins or ends to wait for a node.
func (c *Controller) addPod(change api.Change[*v1.Pod]) {
	old, pod := change.Old, change.New
	isSame := old != nil && pod != nil && old.UID == pod.UID
	if change.Replay || isSame && isUnscheduled(old) == isUnscheduled(pod) {
		return // after a start, the claims are queued by their own cache
	}
	if isUnscheduled(old) {
		c.addConsumed(old)
	}
	if isUnscheduled(pod) {
		c.addConsumed(pod)
	}
}

// addConsumed queues the claims of a pod that await their first consumer.
func (c *Controller) addConsumed(pod *v1.Pod) {
	for _, key := range claimindex.ClaimsOf(pod) {
		claim, ok := c.claims.Cache().Get(key)
		if !ok {
			continue
		}
		class, _ := c.classes.Get(api.Key{Name: className(claim)})
		if awaitsConsumer(claim, class) {
			c.claimPool.Add(key)
		}
	}
}
