package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/bench/internal/subject"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/apicalls"
	"github.com/volumekit/volumekit/internal/kubeserver"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A contender is a controller with a configuration.
type contender struct {
	name      string
	calls     int // of the storage at the same time; 0: the default
	unguarded bool
	isPeer    bool
}

// contenders are measured one after another. Those without finalizers do as much as the peer.
var contenders = []contender{
	{name: "ours"},
	{name: "ours, unguarded", unguarded: true},
	{name: "ours, unguarded, 4 calls", unguarded: true, calls: 4},
	{name: "sig-storage-lib", isPeer: true},
	{name: "sig-storage-lib, 128 calls", isPeer: true, calls: 128},
}

// A provisionBench measures provisioners on an API server.
type provisionBench struct {
	server  *kubeserver.Server
	cluster api.Cluster
	volumes *api.Cache[*v1.PersistentVolume]
	peer    string // the program; "": not measured
	out     io.Writer
	run     int // the number of the measurement
}

// writers is the number of clients that create objects at the same time.
const writers = 8

// onProvisionServer measures provisioners on an API server of its own.
func onProvisionServer(ctx context.Context, o provisionOptions, out io.Writer) error {
	return onOwnServer(ctx, func(server *kubeserver.Server) error { return measureProvisioners(ctx, server, o, out) })
}

// onBindServer measures binders on an API server of its own.
func onBindServer(ctx context.Context, o bindOptions, out io.Writer) error {
	return onOwnServer(ctx, func(server *kubeserver.Server) error { return measureBinders(ctx, server, o, out) })
}

// onOwnServer measures on an API server that ends with the measurement.
func onOwnServer(ctx context.Context, measure func(*kubeserver.Server) error) error {
	dir, err := os.MkdirTemp("", "volumekit-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := kubeserver.Run(ctx, dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	return measure(server)
}

// measureProvisioners measures all subjects, one after another for each storage and number of claims.
func measureProvisioners(ctx context.Context, server *kubeserver.Server, o provisionOptions, out io.Writer) error {
	clientset, err := subject.Connect(subject.Config{URL: server.URL, Token: server.Token, CA: server.CA}, nil)
	if err != nil {
		return err
	}
	b := &provisionBench{server: server, cluster: kubeclient.New(clientset), peer: o.peer, out: out}
	b.volumes = api.NewCache(b.cluster.PersistentVolumes(), api.CacheConfig{})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.volumes.Run(ctx) }()
	if err = b.volumes.WaitForSync(ctx); err == nil {
		err = b.createClass(ctx)
	}
	if err == nil {
		err = b.measureAll(ctx, o)
	}
	cancel()
	return errors.Join(err, <-ended)
}

func (b *provisionBench) measureAll(ctx context.Context, o provisionOptions) error {
	for _, n := range o.claims {
		if err := b.measureCreations(ctx, n); err != nil {
			return err
		}
		for _, delay := range o.delays {
			for _, failures := range o.failures {
				_, _ = fmt.Fprintf(b.out, "\n%d claims, storage of %v, %.0f %% of its calls fail\n", n, delay, 100*failures)
				for _, s := range contenders {
					if s.isPeer && b.peer == "" || !strings.Contains(s.name, o.subjects) {
						continue
					}
					ctx, cancel := context.WithTimeout(ctx, o.limit)
					err := b.measure(ctx, s, n, subject.Storage{Delay: delay, Failures: failures})
					cancel()
					if err != nil {
						return fmt.Errorf("%s: %w", s.name, err)
					}
				}
			}
		}
	}
	return nil
}

const benchClass = "bench"

// createClass creates the class, once the API server has created the namespace of the claims.
func (b *provisionBench) createClass(ctx context.Context) error {
	policy := v1.PersistentVolumeReclaimDelete
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: benchClass}, Provisioner: subject.Provisioner, ReclaimPolicy: &policy}
	if _, err := b.cluster.StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	return until(ctx, "the namespace exists", func() (bool, error) {
		_, err := b.cluster.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// measureCreations measures the rate at which the API server stores volumes: the floor of a
// provisioner.
func (b *provisionBench) measureCreations(ctx context.Context, n int) error {
	name := func(i int) string { return fmt.Sprintf("floor-%d", i) }
	start := time.Now()
	err := each(n, writers, func(i int) error {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name(i)}, Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: benchClass, Capacity: benchSize(),
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain, PersistentVolumeSource: subject.Source(name(i)),
			ClaimRef: &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name(i), UID: types.UID(name(i))},
		}}
		_, err := b.cluster.PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	took := time.Since(start)
	_, _ = fmt.Fprintf(b.out, "\nfloor: %d clients store %d volumes at %.0f/s\n", writers, n, float64(n)/took.Seconds())
	err = each(n, writers, func(i int) error {
		err := b.patchVolume(ctx, name(i), unprotected)
		if err == nil {
			err = b.cluster.PersistentVolumes().Delete(ctx, name(i), metav1.DeleteOptions{})
		}
		return err
	})
	if err != nil {
		return err
	}
	return until(ctx, "no volume is left", func() (bool, error) { return len(b.volumes.List()) == 0, nil })
}

// unprotected removes the finalizers of the API server's admission: no controller here does.
const unprotected = `{"metadata":{"$deleteFromPrimitiveList/finalizers":["kubernetes.io/pv-protection","kubernetes.io/pvc-protection"]}}`

func (b *provisionBench) patchVolume(ctx context.Context, name, patch string, subresources ...string) error {
	_, err := b.cluster.PersistentVolumes().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

// measure measures one subject: the storing of volumes for n claims, and the deletion of n released
// volumes. All claims exist, or all volumes are released, before the controller starts.
func (b *provisionBench) measure(ctx context.Context, s contender, n int, storage subject.Storage) error {
	b.run++
	err := each(n, writers, func(i int) error {
		_, err := b.cluster.PersistentVolumeClaims(namespace).Create(ctx, b.newClaim(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := b.observe(ctx, "store", s, n, storage, func(c api.Change[*v1.PersistentVolume]) bool { return c.Old == nil }); err != nil {
		return err
	}
	if err := b.release(ctx, n); err != nil {
		return err
	}
	return b.observe(ctx, "delete", s, n, storage, func(c api.Change[*v1.PersistentVolume]) bool { return c.New == nil })
}

func (b *provisionBench) newClaim(i int) *v1.PersistentVolumeClaim {
	class := benchClass
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: b.claimName(i), Annotations: map[string]string{
			provision.ProvisionerAnnotation: subject.Provisioner, provision.BetaProvisionerAnnotation: subject.Provisioner}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: benchSize()},
		},
	}
}

func (b *provisionBench) claimName(i int) string { return fmt.Sprintf("claim-%d-%d", b.run, i) }

// observe runs a subject until it has changed n volumes, and prints the times of these changes from
// the start of the controller.
func (b *provisionBench) observe(ctx context.Context, verb string, s contender, n int, storage subject.Storage, counts func(api.Change[*v1.PersistentVolume]) bool) error {
	program := "/proc/self/exe"
	if s.isPeer {
		program = b.peer
	}
	p, err := startProvisioner(program, subject.Config{
		URL: b.server.URL, Token: b.server.Token, CA: b.server.CA, Calls: s.calls, Unguarded: s.unguarded, Storage: storage,
	})
	if err != nil {
		return err
	}
	times := make(chan time.Time, n)
	_, stop, err := b.volumes.Subscribe(func(c api.Change[*v1.PersistentVolume]) {
		if counts(c) && !c.Replay {
			select {
			case times <- time.Now():
			default:
			}
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	start := time.Now()
	if err := p.begin(); err != nil {
		return err
	}
	var durations []time.Duration
	for len(durations) < n {
		select {
		case at := <-times:
			durations = append(durations, at.Sub(start))
		case <-ctx.Done():
			p.kill()
			return fmt.Errorf("%s: %d of %d volumes: %w", verb, len(durations), n, ctx.Err())
		}
	}
	if err := b.awaitReleasedClaims(ctx); err != nil {
		return err
	}
	used, err := p.stop()
	if err != nil {
		return err
	}
	b.print(verb, s, durations, used)
	return nil
}

// awaitReleasedClaims waits until no claim has a finalizer of a provisioner.
func (b *provisionBench) awaitReleasedClaims(ctx context.Context) error {
	return until(ctx, "no claim has a finalizer", func() (bool, error) {
		list, err := b.cluster.PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(list.Items, func(claim v1.PersistentVolumeClaim) bool {
			return slices.Contains(claim.Finalizers, provision.ClaimFinalizer)
		}), nil
	})
}

// release deletes the claims and releases their volumes.
func (b *provisionBench) release(ctx context.Context, n int) error {
	claims := b.cluster.PersistentVolumeClaims(namespace)
	err := each(n, writers, func(i int) error {
		_, err := claims.Patch(ctx, b.claimName(i), types.StrategicMergePatchType, []byte(unprotected), metav1.PatchOptions{})
		if err == nil {
			err = claims.Delete(ctx, b.claimName(i), metav1.DeleteOptions{})
		}
		return err
	})
	if err != nil {
		return err
	}
	volumes := b.volumes.List() // all of them: their changes were observed
	return each(len(volumes), writers, func(i int) error {
		return errors.Join(b.patchVolume(ctx, volumes[i].Name, unprotected), b.patchVolume(ctx, volumes[i].Name, `{"status":{"phase":"Released"}}`, "status"))
	})
}

// print prints the times of n changes, in their order, and the API calls for each, without events.
func (b *provisionBench) print(verb string, s contender, times []time.Duration, u usage) {
	n := len(times)
	counts, calls := map[string]int{}, 0
	for _, call := range u.calls {
		if isPerObject(call) {
			counts[call.Right()]++
			calls++
		}
	}
	_, _ = fmt.Fprintf(b.out, "  %-6s %-26s %6.1f/s  p50 %-8v p99 %-8v CPU %v each, RSS %d MiB; %.2f calls each:", verb, s.name,
		float64(n)/times[n-1].Seconds(), percentile(times, 50).Round(time.Millisecond), percentile(times, 99).Round(time.Millisecond),
		(u.cpu / time.Duration(n)).Round(10*time.Microsecond), u.memory>>20, float64(calls)/float64(n))
	for _, right := range sortedKeys(counts) {
		_, _ = fmt.Fprintf(b.out, " %s %.2f", right, float64(counts[right])/float64(n))
	}
	_, _ = fmt.Fprintln(b.out)
}

// isPerObject reports whether a call is none of those with which each cache begins, and writes no
// event: events are written one after another, and follow later.
func isPerObject(call apicalls.Call) bool {
	return call.Verb != "watch" && call.Resource != "events" && (call.Verb != "list" || call.Namespace != "")
}

// percentile returns the nearest rank of sorted times.
func percentile(times []time.Duration, percent int) time.Duration {
	return times[(len(times)*percent+99)/100-1]
}
