package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/bench/internal/subject"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/kubeserver"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A bindBench measures binders on an API server.
type bindBench struct {
	server  *kubeserver.Server
	cluster api.Cluster
	claims  *api.Cache[*v1.PersistentVolumeClaim]
	peer    string // kube-controller-manager; "": not measured
	out     io.Writer
	run     int            // the number of the measurement
	bound   chan time.Time // of its claims
}

// binders is the number of clients of the floor: the workers of package bind.
const binders = 32

// measureBinders measures the binding of n pairs of a volume and a claim that exist before the start, by the
// calls alone, by our binder, and by that of kube-controller-manager for up to o.peerPairs pairs.
func measureBinders(ctx context.Context, server *kubeserver.Server, o bindOptions, out io.Writer) error {
	clientset, err := subject.Connect(subject.Config{URL: server.URL, Token: server.Token, CA: server.CA}, nil)
	if err != nil {
		return err
	}
	b := &bindBench{server: server, cluster: kubeclient.New(clientset), peer: o.peer, out: out}
	b.claims = api.NewCache(b.cluster.PersistentVolumeClaims(namespace), api.CacheConfig{})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.claims.Run(ctx) }()
	if err = b.claims.WaitForSync(ctx); err == nil {
		err = b.measureAll(ctx, o)
	}
	cancel()
	return errors.Join(err, <-ended)
}

func (b *bindBench) measureAll(ctx context.Context, o bindOptions) error {
	for _, n := range o.pairs {
		_, _ = fmt.Fprintf(b.out, "\n%d pairs of a claim and a volume\n", n)
		subjects := []struct {
			name    string
			measure func(context.Context, int) (usage, error)
		}{{"floor", b.bindByCalls}, {"ours", b.bindByOurs}, {"kube-controller-manager", b.bindByPeer}}
		for _, s := range subjects {
			if s.name == "kube-controller-manager" && (b.peer == "" || n > o.peerPairs) {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, o.limit)
			err := b.measure(ctx, s.name, n, s.measure)
			cancel()
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	if err := b.measureProvisioned(ctx, o); err != nil {
		return fmt.Errorf("provisioned claims: %w", err)
	}
	return b.measureRestarts(ctx, o)
}

// measure creates n pairs, binds them, and deletes them.
func (b *bindBench) measure(ctx context.Context, name string, n int, bind func(context.Context, int) (usage, error)) error {
	b.run++
	if err := b.createPairs(ctx, n); err != nil {
		return err
	}
	stop, err := b.watchBound(n)
	if err != nil {
		return err
	}
	defer stop()
	start := time.Now()
	used, err := bind(ctx, n)
	if err != nil {
		return err
	}
	b.print(name, start, n, used)
	return b.clean(ctx, n)
}

// createPairs creates n volumes, and n claims that these fit.
func (b *bindBench) createPairs(ctx context.Context, n int) error {
	return each(n, writers, func(i int) error {
		pv, claim := b.pair(i)
		_, err := b.cluster.PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
		if err == nil {
			_, err = b.cluster.PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
		}
		return err
	})
}

// pair returns a volume and a claim that the volume fits.
func (b *bindBench) pair(i int) (*v1.PersistentVolume, *v1.PersistentVolumeClaim) {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: b.name(i)}, Spec: v1.PersistentVolumeSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: benchClass, Capacity: benchSize(),
		PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain, PersistentVolumeSource: subject.Source(b.name(i)),
	}}
	class := benchClass
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: b.name(i)}, Spec: v1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: pv.Spec.AccessModes, Resources: v1.VolumeResourceRequirements{Requests: benchSize()},
	}}
	return pv, claim
}

// watchBound records the times at which n claims are bound, until stop is called.
func (b *bindBench) watchBound(n int) (stop func(), err error) {
	b.bound = make(chan time.Time, n)
	own := strings.TrimSuffix(b.name(0), "0")
	_, stop, err = b.claims.Subscribe(func(c api.Change[*v1.PersistentVolumeClaim]) {
		if isBound(c.New) && !isBound(c.Old) && strings.HasPrefix(c.New.Name, own) {
			select {
			case b.bound <- time.Now():
			default:
			}
		}
	})
	return stop, err
}

// awaitBound waits until all claims are bound.
func (b *bindBench) awaitBound(ctx context.Context, n int) error {
	return until(ctx, fmt.Sprintf("%d claims are bound", n), func() (bool, error) { return len(b.bound) == n, nil })
}

func isBound(claim *v1.PersistentVolumeClaim) bool {
	return claim != nil && claim.Status.Phase == v1.ClaimBound
}

func (b *bindBench) name(i int) string { return fmt.Sprintf("pair-%d-%d", b.run, i) }

// bindByCalls makes the four writes of each pair.
func (b *bindBench) bindByCalls(ctx context.Context, n int) (usage, error) {
	volumes, claims := b.cluster.PersistentVolumes(), b.cluster.PersistentVolumeClaims(namespace)
	err := each(n, binders, func(i int) error {
		name := b.name(i)
		reference := fmt.Appendf(nil, `{"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"claimRef":{"kind":"PersistentVolumeClaim","apiVersion":"v1","namespace":%q,"name":%q,"uid":%q}}}`, namespace, name, name)
		naming := fmt.Appendf(nil, `{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes","pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"volumeName":%q}}`, name)
		_, err := volumes.Patch(ctx, name, types.StrategicMergePatchType, reference, metav1.PatchOptions{})
		if err == nil {
			_, err = claims.Patch(ctx, name, types.StrategicMergePatchType, naming, metav1.PatchOptions{})
		}
		if err == nil {
			_, err = volumes.Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Bound"}}`), metav1.PatchOptions{}, "status")
		}
		if err == nil {
			_, err = claims.Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"}}}`), metav1.PatchOptions{}, "status")
		}
		return err
	})
	if err != nil {
		return usage{}, err
	}
	return usage{}, b.awaitBound(ctx, n)
}

// bindByOurs runs our binder in a process of its own.
func (b *bindBench) bindByOurs(ctx context.Context, n int) (usage, error) {
	p, err := b.startOurs()
	if err != nil {
		return usage{}, err
	}
	if err := b.awaitBound(ctx, n); err != nil {
		p.kill()
		return usage{}, err
	}
	time.Sleep(2 * time.Second) // late writes count
	return p.stop()
}

// startOurs starts our binder in a process of its own.
func (b *bindBench) startOurs() (*provisioner, error) {
	p, err := startProvisioner("/proc/self/exe", subject.Config{URL: b.server.URL, Token: b.server.Token, CA: b.server.CA, Binds: true})
	if err != nil {
		return nil, err
	}
	if err := p.begin(); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// bindByPeer runs the binder of kube-controller-manager, without limits of its calls.
func (b *bindBench) bindByPeer(ctx context.Context, n int) (usage, error) {
	manager, err := b.server.StartControllerManager(b.peer, []string{"persistentvolume-binder-controller"})
	if err != nil {
		return usage{}, err
	}
	err = b.awaitBound(ctx, n)
	return usage{cpu: manager.Stop()}, err
}

// print prints the rate from the first claim to the last, the times from the start, and the API calls of a pair.
func (b *bindBench) print(name string, start time.Time, n int, u usage) {
	var times []time.Duration
	for range n {
		times = append(times, (<-b.bound).Sub(start))
	}
	rate := float64(n-1) / (times[n-1] - times[0]).Seconds()
	_, _ = fmt.Fprintf(b.out, "  %-24s %6.1f pairs/s  first %-7v p50 %-7v p99 %-7v CPU %v each", name, rate,
		times[0].Round(time.Millisecond), percentile(times, 50).Round(time.Millisecond), percentile(times, 99).Round(time.Millisecond),
		(u.cpu / time.Duration(n)).Round(10*time.Microsecond))
	if len(u.calls) > 0 {
		counts, calls, conflicts := map[string]int{}, 0, 0
		for _, call := range u.calls {
			if isPerObject(call) {
				counts[call.Right()]++
				calls++
			}
			if call.Code == http.StatusConflict {
				conflicts++
			}
		}
		_, _ = fmt.Fprintf(b.out, ", RSS %d MiB; %d conflicts; %.2f calls each:", u.memory>>20, conflicts, float64(calls)/float64(n))
		for _, right := range sortedKeys(counts) {
			_, _ = fmt.Fprintf(b.out, " %s %.2f", right, float64(counts[right])/float64(n))
		}
	}
	_, _ = fmt.Fprintln(b.out)
}

// clean deletes the pairs by force.
func (b *bindBench) clean(ctx context.Context, n int) error {
	volumes, claims := b.cluster.PersistentVolumes(), b.cluster.PersistentVolumeClaims(namespace)
	return each(n, writers, func(i int) error {
		_, err := claims.Patch(ctx, b.name(i), types.StrategicMergePatchType, []byte(unprotected), metav1.PatchOptions{})
		if err == nil {
			_, err = volumes.Patch(ctx, b.name(i), types.StrategicMergePatchType, []byte(unprotected), metav1.PatchOptions{})
		}
		return errors.Join(err, claims.Delete(ctx, b.name(i), metav1.DeleteOptions{}), volumes.Delete(ctx, b.name(i), metav1.DeleteOptions{}))
	})
}
