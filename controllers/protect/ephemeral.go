package protect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/claimindex"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A NotOwnerError reports that the claim of a pod's ephemeral volume exists, and that the pod does not
// own it. The claim is never used for the volume.
type NotOwnerError struct {
	Claim api.Key
	Pod   string
}

func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("claim %s was not created for pod %s/%s: the pod is not the owner", e.Claim, e.Claim.Namespace, e.Pod)
}

// needsNewClaim reports whether the claim of an ephemeral volume is to be created. The error is a
// *NotOwnerError. Claim is nil if it does not exist.
func needsNewClaim(pod *v1.Pod, claim *v1.PersistentVolumeClaim) (bool, error) {
	switch {
	case claim == nil:
		return true, nil
	case !ownsClaim(pod, claim):
		return false, &NotOwnerError{api.KeyOf(claim), pod.Name}
	}
	return false, nil
}

// newClaim returns the claim of an ephemeral volume of a pod. The garbage collector deletes it after the
// pod.
func newClaim(pod *v1.Pod, v *v1.Volume) *v1.PersistentVolumeClaim {
	isTrue := true
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: claimindex.NameOf(pod, v),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &isTrue, BlockOwnerDeletion: &isTrue,
		}},
	}}
	if template := v.Ephemeral.VolumeClaimTemplate; template != nil {
		template = template.DeepCopy()
		claim.Labels, claim.Annotations, claim.Spec = template.Labels, template.Annotations, template.Spec
	}
	return claim
}

// handlePod creates the missing claims of a pod's ephemeral volumes. A pod whose claim has another owner is handled
// again when that claim changes its owner or ends.
func (c *Controller) handlePod(ctx context.Context, key api.Key) (workers.Result, error) {
	pod, ok := c.pods.Get(key)
	if !ok || pod.DeletionTimestamp != nil {
		return workers.Result{}, nil
	}
	err := c.ensureClaims(ctx, pod)
	if err != nil && !errors.As(err, new(*NotOwnerError)) {
		return workers.Result{}, err
	}
	return workers.Result{After: c.pauseFor(ctx, pod)}, nil
}

// ensureClaims creates the missing claims of a pod up to the first failure, which it announces.
func (c *Controller) ensureClaims(ctx context.Context, pod *v1.Pod) error {
	for v := range ephemeralVolumes(pod) {
		if err := c.ensureClaim(ctx, pod, v); err != nil {
			err = fmt.Errorf("ephemeral volume %s: %w", v.Name, err)
			c.announce(pod, err.Error())
			return err
		}
	}
	return nil
}

// pauseFor returns the pause before the next look at a pod: the cache may never have one of its claims, and its end.
func (c *Controller) pauseFor(ctx context.Context, pod *v1.Pod) (pause time.Duration) {
	for v := range ephemeralVolumes(pod) {
		claim, err := c.claims.Get(ctx, api.Key{Namespace: pod.Namespace, Name: claimindex.NameOf(pod, v)})
		if err == nil {
			pause = max(pause, unseen.PauseFor(c.claims, claim))
		}
	}
	return pause
}

// ephemeralVolumes yields the volumes of a pod that have a claim template.
func ephemeralVolumes(pod *v1.Pod) iter.Seq[*v1.Volume] {
	return func(yield func(*v1.Volume) bool) {
		for i := range pod.Spec.Volumes {
			if v := &pod.Spec.Volumes[i]; v.Ephemeral != nil && !yield(v) {
				return
			}
		}
	}
}

// ensureClaim creates the claim of an ephemeral volume unless it exists.
func (c *Controller) ensureClaim(ctx context.Context, pod *v1.Pod, v *v1.Volume) error {
	key := api.Key{Namespace: pod.Namespace, Name: claimindex.NameOf(pod, v)}
	claim, err := c.claims.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("read claim %s: %w", key, err)
	}
	missing, err := needsNewClaim(pod, claim)
	if !missing {
		return err
	}
	c.config.Metrics.Add(EphemeralCreateTotal, 1)
	_, err = c.claims.Create(ctx, newClaim(pod, v))
	if err == nil {
		return nil
	}
	c.config.Metrics.Add(EphemeralCreateFailuresTotal, 1)
	if apierrors.IsAlreadyExists(err) { // the cache is late, or another program was faster
		if claim, readErr := c.claims.Live(ctx, key); readErr == nil && claim != nil {
			_, err = needsNewClaim(pod, claim)
			return err
		}
	}
	return fmt.Errorf("create claim %s: %w", key, err)
}

// announce sends an event of a pod.
func (c *Controller) announce(pod *v1.Pod, message string) {
	c.config.Events(api.Event{Object: pod, Type: v1.EventTypeWarning, Reason: reasonFailed, Message: brief.Text(oneline.Of(message))})
}
