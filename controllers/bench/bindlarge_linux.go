package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/bench/internal/subject"
	"github.com/volumekit/volumekit/controllers/bind"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// provisionedClass is the class of the claims that a provisioner stores volumes for.
const provisionedClass = "bench-provisioned"

// measureProvisioned measures binders of claims for which our provisioner, in another process and with a storage
// that needs no time, stores the volumes.
func (b *bindBench) measureProvisioned(ctx context.Context, o bindOptions) error {
	if len(o.provisioned) == 0 {
		return nil
	}
	policy := v1.PersistentVolumeReclaimRetain
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: provisionedClass}, Provisioner: subject.Provisioner, ReclaimPolicy: &policy}
	if _, err := b.cluster.StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, n := range o.provisioned {
		_, _ = fmt.Fprintf(b.out, "\n%d claims that a provisioner stores volumes for\n", n)
		if err := b.measureProvisionedBy(ctx, "ours", n, o.limit, b.bindByOurs); err != nil {
			return err
		}
		if b.peer != "" && n <= o.peerPairs {
			if err := b.measureProvisionedBy(ctx, "kube-controller-manager", n, o.limit, b.bindByPeer); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureProvisionedBy measures one binder.
func (b *bindBench) measureProvisionedBy(ctx context.Context, name string, n int, limit time.Duration, measured func(context.Context, int) (usage, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b.run++
	err := each(n, writers, func(i int) error {
		_, claim := b.pair(i)
		class := provisionedClass
		claim.Spec.StorageClassName = &class
		_, err := b.cluster.PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	p, err := startProvisioner("/proc/self/exe", subject.Config{URL: b.server.URL, Token: b.server.Token, CA: b.server.CA, Unguarded: true})
	if err != nil {
		return err
	}
	defer p.kill()
	if err := p.begin(); err != nil {
		return err
	}
	stop, err := b.watchBound(n)
	if err != nil {
		return err
	}
	defer stop()
	start := time.Now()
	used, err := measured(ctx, n)
	if err != nil {
		return err
	}
	b.print(name, start, n, used)
	p.kill()
	return b.cleanProvisioned(ctx, n)
}

// cleanProvisioned deletes the claims and their volumes by force.
func (b *bindBench) cleanProvisioned(ctx context.Context, n int) error {
	volumes, claims := b.cluster.PersistentVolumes(), b.cluster.PersistentVolumeClaims(namespace)
	return each(n, writers, func(i int) error {
		claim, err := claims.Get(ctx, b.name(i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = claims.Patch(ctx, claim.Name, types.StrategicMergePatchType, []byte(unprotected), metav1.PatchOptions{})
		if err == nil {
			_, err = volumes.Patch(ctx, claim.Spec.VolumeName, types.StrategicMergePatchType, []byte(unprotected), metav1.PatchOptions{})
		}
		return errors.Join(err, claims.Delete(ctx, claim.Name, metav1.DeleteOptions{}), volumes.Delete(ctx, claim.Spec.VolumeName, metav1.DeleteOptions{}))
	})
}

// measureRestarts measures the start of binders beside pairs that are bound: the time until the first new pair is
// bound, and the calls, the processor time and the memory of an idle time afterwards. The pairs stay.
func (b *bindBench) measureRestarts(ctx context.Context, o bindOptions) error {
	bound := 0
	for _, n := range o.bound {
		b.run++
		if err := b.createBound(ctx, n-bound); err != nil {
			return fmt.Errorf("bound pairs: %w", err)
		}
		bound = n
		_, _ = fmt.Fprintf(b.out, "\nrestart with %d pairs that are bound\n", n)
		first, used, err := b.bindFirst(ctx, o.limit, func(ctx context.Context) (usage, error) { return b.bindByOursAndRest(ctx, o.idle) })
		if err != nil {
			return err
		}
		var calls int
		for _, call := range used.calls {
			if isPerObject(call) {
				calls++
			}
		}
		_, _ = fmt.Fprintf(b.out, "  %-24s the first new pair after %v; with %v of idle time: CPU %v, %d calls beside lists and watches, RSS %d MiB\n", "ours",
			first.Round(10*time.Millisecond), o.idle, used.cpu.Round(10*time.Millisecond), calls, used.memory>>20)
		if b.peer == "" {
			continue
		}
		first, used, err = b.bindFirst(ctx, o.limit, func(ctx context.Context) (usage, error) { return b.bindByPeer(ctx, 1) })
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(b.out, "  %-24s the first new pair after %v; CPU until then %v\n", "kube-controller-manager",
			first.Round(10*time.Millisecond), used.cpu.Round(10*time.Millisecond))
	}
	return nil
}

// createBound creates n pairs that are bound.
func (b *bindBench) createBound(ctx context.Context, n int) error {
	volumes, claims := b.cluster.PersistentVolumes(), b.cluster.PersistentVolumeClaims(namespace)
	return each(n, writers, func(i int) error {
		pv, claim := b.pair(i)
		claim.Annotations = map[string]string{bind.BindCompletedAnnotation: "yes", bind.BoundByControllerAnnotation: "yes"}
		claim.Spec.VolumeName = pv.Name
		claim, err := claims.Create(ctx, claim, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: benchSize()}
		if _, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
		pv.Annotations = map[string]string{bind.BoundByControllerAnnotation: "yes"}
		pv.Spec.ClaimRef = &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim.Name, UID: claim.UID}
		if pv, err = volumes.Create(ctx, pv, metav1.CreateOptions{}); err != nil {
			return err
		}
		pv.Status.Phase = v1.VolumeBound
		_, err = volumes.UpdateStatus(ctx, pv, metav1.UpdateOptions{})
		return err
	})
}

// bindFirst creates a pair, and returns the time in which a binder that starts binds it.
func (b *bindBench) bindFirst(ctx context.Context, limit time.Duration, measured func(context.Context) (usage, error)) (time.Duration, usage, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b.run++
	if err := b.createPairs(ctx, 1); err != nil {
		return 0, usage{}, err
	}
	stop, err := b.watchBound(1)
	if err != nil {
		return 0, usage{}, err
	}
	defer stop()
	start := time.Now()
	used, err := measured(ctx)
	if err != nil {
		return 0, usage{}, err
	}
	return (<-b.bound).Sub(start), used, b.clean(ctx, 1)
}

// bindByOursAndRest runs our binder in a process of its own, until it has bound a claim, and for an idle time.
func (b *bindBench) bindByOursAndRest(ctx context.Context, idle time.Duration) (usage, error) {
	p, err := b.startOurs()
	if err != nil {
		return usage{}, err
	}
	if err := b.awaitBound(ctx, 1); err != nil {
		p.kill()
		return usage{}, err
	}
	time.Sleep(idle)
	return p.stop()
}
