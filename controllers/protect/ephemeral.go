package protect

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
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
		Namespace: pod.Namespace, Name: claimOf(pod, v),
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

// handlePod creates the missing claims of a pod's ephemeral volumes, up to the first failure. A pod whose
// claim has another owner is handled again when that claim changes its owner or ends.
func (c *Controller) handlePod(ctx context.Context, key api.Key) (workers.Result, error) {
	pod, ok := c.pods.Get(key)
	if !ok || pod.DeletionTimestamp != nil {
		return workers.Result{}, nil
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil {
			continue
		}
		err := c.ensureClaim(ctx, pod, v)
		if err == nil {
			continue
		}
		c.announce(pod, fmt.Sprintf("ephemeral volume %s: %v", v.Name, err))
		if errors.As(err, new(*NotOwnerError)) {
			return workers.Result{}, nil
		}
		return workers.Result{}, fmt.Errorf("ephemeral volume %s: %w", v.Name, err)
	}
	return workers.Result{}, nil
}

// ensureClaim creates the claim of an ephemeral volume unless it exists.
func (c *Controller) ensureClaim(ctx context.Context, pod *v1.Pod, v *v1.Volume) error {
	key := api.Key{Namespace: pod.Namespace, Name: claimOf(pod, v)}
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
