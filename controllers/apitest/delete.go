package apitest

import (
	"fmt"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
)

// delete deletes an object at once, or begins its deletion if finalizers, a grace period or the
// kind require steps in between.
func (c *Cluster) delete(k *kind, key api.Key, options metav1.DeleteOptions) error {
	s := c.server
	if errs := metav1validation.ValidateDeleteOptions(&options); len(errs) > 0 {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("DeleteOptions").GroupKind(), "", errs)
	}
	if err := c.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	old, ok := s.tables[k].objects[key]
	if !ok {
		return k.notFound(key.Name)
	}
	if err := k.checkPreconditions(old, options.Preconditions); err != nil {
		return err
	}
	dryRun := len(options.DryRun) > 0
	object := copyOf(old)
	grace := k.gracePeriod(old, options)
	finalizers, changed := propagated(old.GetFinalizers(), options)
	object.SetFinalizers(finalizers)
	waits := len(finalizers) > 0 || grace > 0 || k.keeps != nil && k.keeps(object)
	switch {
	case dryRun:
		return nil
	case !waits:
		s.remove(k, old)
		return nil
	case old.GetDeletionTimestamp() == nil:
		k.beginDeletion(object, grace)
	case !shortensGrace(old, grace) && !changed:
		return nil // the deletion goes on as it has begun
	default:
		k.shortenGrace(object, grace)
	}
	s.store(k, old, object)
	return nil
}

func (k *kind) checkPreconditions(old api.Object, p *metav1.Preconditions) error {
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != old.GetUID():
		return k.conflict(old.GetName(), fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", *p.UID, old.GetUID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion():
		return k.conflict(old.GetName(), fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s)",
			*p.ResourceVersion, old.GetResourceVersion()))
	}
	return nil
}

// gracePeriod returns the grace period of a deletion in seconds. It is 0 for all objects but pods
// that have a node and are not finished.
func (k *kind) gracePeriod(old api.Object, options metav1.DeleteOptions) int64 {
	pod, ok := old.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		return 0
	}
	grace := pod.Spec.TerminationGracePeriodSeconds
	if pod.DeletionTimestamp != nil {
		grace = pod.DeletionGracePeriodSeconds // can only become shorter
	}
	if asked := options.GracePeriodSeconds; asked != nil && (pod.DeletionTimestamp == nil || grace != nil && *asked < *grace) {
		grace = asked
	}
	switch {
	case grace == nil:
		return 0
	case *grace < 0:
		return 1
	}
	return *grace
}

// propagated returns the finalizers after it has set those of the garbage collector by the
// propagation policy. changed reports whether they differ from before, so that the API server
// stores the object.
func propagated(finalizers []string, options metav1.DeleteOptions) (_ []string, changed bool) {
	if options.PropagationPolicy == nil {
		return finalizers, false
	}
	var wanted string
	switch *options.PropagationPolicy {
	case metav1.DeletePropagationForeground:
		wanted = metav1.FinalizerDeleteDependents
	case metav1.DeletePropagationOrphan:
		wanted = metav1.FinalizerOrphanDependents
	case metav1.DeletePropagationBackground:
	}
	kept := []string{}
	for _, f := range finalizers {
		if f == wanted || f != metav1.FinalizerDeleteDependents && f != metav1.FinalizerOrphanDependents {
			kept = append(kept, f)
		}
	}
	if wanted != "" && !slices.Contains(kept, wanted) {
		kept = append(kept, wanted)
	}
	return kept, !slices.Equal(kept, finalizers)
}

// beginDeletion sets the deletion timestamp and the grace period, in seconds, of an object.
func (k *kind) beginDeletion(object api.Object, grace int64) {
	at := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second)).Rfc3339Copy()
	object.SetDeletionTimestamp(&at)
	object.SetDeletionGracePeriodSeconds(&grace)
	if object.GetGeneration() > 0 {
		object.SetGeneration(object.GetGeneration() + 1)
	}
	if namespace, ok := object.(*v1.Namespace); ok {
		namespace.Status.Phase = v1.NamespaceTerminating
		namespace.DeletionGracePeriodSeconds = nil
	}
}

// shortensGrace reports whether a grace period is shorter than that of an object in deletion.
func shortensGrace(old api.Object, grace int64) bool {
	current := old.GetDeletionGracePeriodSeconds()
	return current != nil && grace < *current
}

// shortenGrace moves the deletion timestamp of an object to an earlier time, but not into the past.
func (k *kind) shortenGrace(object api.Object, grace int64) {
	if !shortensGrace(object, grace) {
		return
	}
	saved := time.Duration(*object.GetDeletionGracePeriodSeconds()-grace) * time.Second
	at := metav1.NewTime(object.GetDeletionTimestamp().Add(-saved))
	if now := metav1.Now().Rfc3339Copy(); at.Before(&now) {
		at = now
	}
	object.SetDeletionTimestamp(&at)
	object.SetDeletionGracePeriodSeconds(&grace)
}
