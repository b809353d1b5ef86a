package minicluster

import (
	"context"
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/cli"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The finalizers of the API server for claims and volumes in use.
const (
	claimProtection  = "kubernetes.io/pvc-protection"
	volumeProtection = "kubernetes.io/pv-protection"
)

// A binder does the work for a cluster whose volumes are all provisioned.
type binder struct {
	cluster api.Cluster
	changed chan struct{} // holds a value after a change
}

// RunBinder binds claims until ctx ends; then it returns nil.
func RunBinder(ctx context.Context, cluster api.Cluster) error {
	b := &binder{cluster, make(chan struct{}, 1)}
	claims := api.NewCache(cluster.PersistentVolumeClaims(""), api.CacheConfig{})
	volumes := api.NewCache(cluster.PersistentVolumes(), api.CacheConfig{})
	pods := api.NewCache(cluster.Pods(""), api.CacheConfig{})
	_, stopClaims, err := claims.Subscribe(func(api.Change[*v1.PersistentVolumeClaim]) { b.wake() })
	if err != nil {
		return err
	}
	defer stopClaims()
	_, stopVolumes, err := volumes.Subscribe(func(api.Change[*v1.PersistentVolume]) { b.wake() })
	if err != nil {
		return err
	}
	defer stopVolumes()
	_, stopPods, err := pods.Subscribe(func(api.Change[*v1.Pod]) { b.wake() })
	if err != nil {
		return err
	}
	defer stopPods()
	return cli.RunAll(ctx, claims.Run, volumes.Run, pods.Run, b.run)
}

func (b *binder) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// run reconciles after each change. A conflict with another writer is followed by a change.
func (b *binder) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.changed:
		}
		if err := b.reconcile(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
}

// reconcile takes the next step for each claim and each volume.
func (b *binder) reconcile(ctx context.Context) error {
	claims, err := b.cluster.PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		if err := b.reconcileClaim(ctx, &claims.Items[i]); err != nil {
			return err
		}
	}
	volumes, err := b.cluster.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range volumes.Items {
		if err := b.reconcileVolume(ctx, &volumes.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// reconcileClaim requests a volume for a new claim, and lets a claim in deletion go once no pod uses it.
func (b *binder) reconcileClaim(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	switch {
	case claim.DeletionTimestamp != nil:
		used, err := b.isUsed(ctx, claim)
		if used || err != nil || !slices.Contains(claim.Finalizers, claimProtection) {
			return err
		}
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == claimProtection })
	case claim.Spec.VolumeName == "" && claim.Annotations[provision.ProvisionerAnnotation] == "":
		class, err := b.cluster.StorageClasses().Get(ctx, *claim.Spec.StorageClassName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, provision.ProvisionerAnnotation, class.Provisioner)
	default:
		return nil
	}
	_, err := b.cluster.PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	return err
}

func (b *binder) isUsed(ctx context.Context, claim *v1.PersistentVolumeClaim) (bool, error) {
	pods, err := b.cluster.Pods(claim.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(pods.Items, func(pod v1.Pod) bool {
		return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
		})
	}), nil
}

// reconcileVolume binds a volume to its claim, releases the volume of a claim that is gone, and lets
// a volume in deletion go.
func (b *binder) reconcileVolume(ctx context.Context, pv *v1.PersistentVolume) error {
	if pv.DeletionTimestamp != nil {
		if !slices.Contains(pv.Finalizers, volumeProtection) {
			return nil
		}
		pv.Finalizers = slices.DeleteFunc(pv.Finalizers, func(f string) bool { return f == volumeProtection })
		_, err := b.cluster.PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{})
		return err
	}
	ref := pv.Spec.ClaimRef
	claim, err := b.cluster.PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil || claim.UID != ref.UID {
		return b.setPhase(ctx, pv, v1.VolumeReleased)
	}
	if err := b.bind(ctx, claim, pv); err != nil {
		return err
	}
	return b.setPhase(ctx, pv, v1.VolumeBound)
}

func (b *binder) bind(ctx context.Context, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) (err error) {
	claims := b.cluster.PersistentVolumeClaims(claim.Namespace)
	if claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil {
		claim.Spec.VolumeName = pv.Name
		if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if claim.Spec.VolumeName != pv.Name || claim.Status.Phase == v1.ClaimBound {
		return nil
	}
	claim.Status.Phase, claim.Status.AccessModes, claim.Status.Capacity = v1.ClaimBound, pv.Spec.AccessModes, pv.Spec.Capacity
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

func (b *binder) setPhase(ctx context.Context, pv *v1.PersistentVolume, phase v1.PersistentVolumePhase) error {
	if pv.Status.Phase == phase {
		return nil
	}
	pv.Status.Phase = phase
	_, err := b.cluster.PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{})
	return err
}
