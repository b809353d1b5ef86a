package provision_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A kubeUser makes claims of one name, one after another, and uses and deletes them.
type kubeUser struct {
	*kubeWorld
	key api.Key
}

// useClaims makes claims. The last one stays.
func (u kubeUser) useClaims(n int) {
	for i := range n {
		u.useClaim(i == n-1)
		if u.ctx.Err() != nil {
			return
		}
		u.done.Add(1)
	}
}

// useClaim makes a claim, and deletes it unless it stays: at once, after its failure is explained, or
// after its use.
func (u kubeUser) useClaim(stays bool) {
	n := rand.IntN(12)
	class := workingClass
	if n == 0 {
		class = brokenClass
	}
	claim := u.createClaim(class)
	switch {
	case claim == nil:
		return
	case n == 0:
		u.try("explain a failure", func() error { return u.findEvent(claim.UID, "ProvisioningFailed") })
	case n < 3 && !stays:
		_ = sleep(u.ctx, time.Duration(rand.IntN(100))*time.Millisecond)
	default:
		u.useVolume(claim, n < 6, stays)
		return
	}
	if !stays {
		u.deleteClaim(claim)
	}
}

// useVolume stores data in the volume of a claim, and deletes the claim unless it stays. With a pod, the
// data outlives the claim.
func (u kubeUser) useVolume(claim *v1.PersistentVolumeClaim, withPod, stays bool) {
	u.await("claim "+u.key.Name+" is bound", func() bool {
		found, ok := u.claims.Get(u.key)
		return ok && found.UID == claim.UID && found.Status.Phase == v1.ClaimBound
	})
	if u.ctx.Err() != nil {
		return
	}
	pv := "pvc-" + string(claim.UID)
	data := u.dataOf(pv)
	if err := os.WriteFile(data, nil, 0o600); err != nil {
		u.fail("the storage of a bound claim is lost: %v", err)
	}
	if stays {
		return
	}
	if withPod {
		u.usePod(claim, pv, data)
		return
	}
	u.removeData(data)
	u.deleteClaim(claim)
}

// usePod deletes a claim while a pod uses it. The storage stays until the pod ends.
func (u kubeUser) usePod(claim *v1.PersistentVolumeClaim, pv, data string) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: u.key.Name, Namespace: namespace}}
	pod.Spec.NodeName, pod.Spec.Containers = "node", []v1.Container{{Name: "c", Image: "i"}}
	pod.Spec.Volumes = []v1.Volume{{Name: "v"}}
	pod.Spec.Volumes[0].PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}
	pods := u.cluster.Pods(namespace)
	u.try("create pod", func() error {
		_, err := pods.Create(u.ctx, pod, metav1.CreateOptions{})
		return ignore(err, apierrors.IsAlreadyExists) // an earlier attempt took effect
	})
	u.deleteClaim(claim)
	u.try("keep the volume in use", func() error {
		if _, err := os.Stat(data); err != nil {
			u.fail("the data of a used volume is lost: %v", err)
			return nil
		}
		found, ok := u.volumes.Get(api.Key{Name: pv})
		if !ok || found.Status.Phase != v1.VolumeReleased {
			return fmt.Errorf("volume %s is not released", pv)
		}
		return u.findEvent(found.UID, "VolumeDelete")
	})
	u.removeData(data)
	u.try("delete pod", func() error {
		return ignore(pods.Delete(u.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}), apierrors.IsNotFound)
	})
}

// dataOf returns the file that each volume in use has.
func (w *kubeWorld) dataOf(pv string) string { return filepath.Join(w.root, pv, "data") }

// removeData ends the use of a volume.
func (u kubeUser) removeData(file string) {
	if u.ctx.Err() != nil {
		return
	}
	if err := os.Remove(file); err != nil {
		u.fail("the data of a used volume is lost: %v", err)
	}
}

func (u kubeUser) createClaim(class string) (claim *v1.PersistentVolumeClaim) {
	claims := u.cluster.PersistentVolumeClaims(namespace)
	u.try("create claim", func() (err error) {
		claim, err = claims.Create(u.ctx, newClaim(u.key.Name, class), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // an earlier attempt took effect
			claim, err = claims.Get(u.ctx, u.key.Name, metav1.GetOptions{})
		}
		return err
	})
	return claim
}

// deleteClaim deletes a claim and waits for its end.
func (u kubeUser) deleteClaim(claim *v1.PersistentVolumeClaim) {
	claims := u.cluster.PersistentVolumeClaims(namespace)
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(claim.UID))}
	u.try("delete claim", func() error { return ignore(claims.Delete(u.ctx, claim.Name, options), apierrors.IsNotFound) })
	u.try("wait for the end of claim", func() error { // of the API server: the cache may not have seen the claim yet
		found, err := claims.Get(u.ctx, claim.Name, metav1.GetOptions{})
		if err == nil && found.UID == claim.UID {
			err = fmt.Errorf("claim %s has the finalizers %s", claim.Name, found.Finalizers)
		}
		return ignore(err, apierrors.IsNotFound)
	})
}

// ignore returns nil for an expected error.
func ignore(err error, isExpected func(error) bool) error {
	if isExpected(err) {
		return nil
	}
	return err
}

// findEvent returns an error if the API server has no event of an object.
func (w *kubeWorld) findEvent(uid types.UID, reason string) error {
	selector := fmt.Sprintf("involvedObject.uid=%s,reason=%s", uid, reason)
	list, err := w.cluster.Events(namespace).List(w.ctx, metav1.ListOptions{FieldSelector: selector})
	if err == nil && len(list.Items) == 0 {
		err = fmt.Errorf("no event %s", selector)
	}
	return err
}

// try repeats a call until it succeeds.
func (w *kubeWorld) try(what string, call func() error) {
	var err error
	for w.ctx.Err() == nil {
		if next := call(); next == nil {
			return
		} else if w.ctx.Err() == nil {
			err = next
		}
		_ = sleep(w.ctx, 50*time.Millisecond)
	}
	w.fail("%s: %v", what, err)
}

// await waits until a condition holds.
func (w *kubeWorld) await(what string, holds func() bool) {
	for !holds() {
		if sleep(w.ctx, 5*time.Millisecond) != nil {
			w.fail("wait until %s: %v", what, context.Cause(w.ctx))
			return
		}
	}
}
