package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attach"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	attachDriver  = "bench.example"
	attachProgram = "controller" // the name by which the API server knows the measured controller
)

// An attachOptions has the size of a cluster in memory, and the numbers of the measurement.
type attachOptions struct {
	nodes, pods int
	attached    int // pods with a volume
	bound       int // pods that are bound while the controller runs
	every       time.Duration
}

// A reaction measures when a controller that attaches calls for the volumes of pods.
type reaction struct {
	attachOptions
	server  *apitest.Server
	cluster api.Cluster // without limits

	mu    sync.Mutex
	calls map[string]time.Time // by the persistent volumes of the VolumeAttachments
}

// measureReaction measures the time from the binding of a pod to the creation of the VolumeAttachment for its volume,
// in a cluster in memory that has many pods and attached volumes.
func measureReaction(ctx context.Context, o attachOptions, out io.Writer) error {
	r := &reaction{attachOptions: o, server: apitest.NewServer(apitest.Config{History: 200_000}), calls: map[string]time.Time{}}
	r.cluster = r.server.Direct()
	if err := r.fill(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopDriver, err := r.runDriver(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	controller, err := attach.New(attach.Config{Cluster: r.server.Connect(attachProgram)})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx) }()
	if err = r.awaitAttached(ctx, o.attached); err == nil {
		_, _ = fmt.Fprintf(out, "\ncontroller that attaches, in memory: %d nodes, %d pods, %d volumes\n  all volumes attached and reported %.1f s after the start\n",
			o.nodes, o.pods, o.attached, time.Since(start).Seconds())
		err = r.measure(ctx, out)
	}
	cancel()
	return errors.Join(err, <-ended, stopDriver())
}

// fill creates the nodes, and the pods, of which the first ones have a volume.
func (r *reaction) fill(ctx context.Context) error {
	options := metav1.CreateOptions{}
	for i := range r.nodes {
		node, err := r.cluster.Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: r.nodeOf(i), Annotations: map[string]string{attach.ManagedAnnotation: "true"},
		}}, options)
		if err != nil {
			return err
		}
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		if _, err := r.cluster.Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	for i := range r.pods {
		if i < r.attached {
			if err := r.createVolume(ctx, i); err != nil {
				return err
			}
		}
		if err := r.createPod(ctx, i, i < r.attached); err != nil {
			return err
		}
	}
	return nil
}

func (r *reaction) nodeOf(i int) string { return fmt.Sprint("node-", i%r.nodes) }

func (r *reaction) volumeOf(i int) string { return fmt.Sprint("volume-", i) }

// createVolume creates the volume of a pod, and its claim.
func (r *reaction) createVolume(ctx context.Context, i int) error {
	name, class, modes := r.volumeOf(i), "", []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim, err := r.cluster.PersistentVolumeClaims(namespace).Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: &class, VolumeName: name,
			Resources: v1.VolumeResourceRequirements{Requests: benchSize()}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = r.cluster.PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{AccessModes: modes, Capacity: benchSize(),
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: attachDriver, VolumeHandle: name}},
			ClaimRef:               &v1.ObjectReference{Namespace: namespace, Name: name, UID: claim.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: benchSize()}
	_, err = r.cluster.PersistentVolumeClaims(namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// createPod creates a pod that is bound to a node.
func (r *reaction) createPod(ctx context.Context, i int, hasVolume bool) error {
	pod := newPod(fmt.Sprint("pod-", i))
	pod.Spec.NodeName = r.nodeOf(i)
	pod.Spec.Volumes[3].VolumeSource = v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
	if hasVolume {
		pod.Spec.Volumes[3].VolumeSource = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: r.volumeOf(i)}}
	}
	_, err := r.cluster.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// runDriver records the creations of VolumeAttachments, and attaches their volumes at once, until ctx ends.
func (r *reaction) runDriver(ctx context.Context) (stop func() error, err error) {
	attachments := api.NewCache(r.cluster.VolumeAttachments(), api.CacheConfig{})
	_, unsubscribe, err := attachments.Subscribe(func(change api.Change[*storagev1.VolumeAttachment]) {
		if va := change.New; va != nil && change.Old == nil {
			r.mu.Lock()
			r.calls[*va.Spec.Source.PersistentVolumeName] = time.Now()
			r.mu.Unlock()
			_, _ = r.cluster.VolumeAttachments().Patch(ctx, va.Name, types.MergePatchType, []byte(`{"status":{"attached":true}}`), metav1.PatchOptions{}, "status")
		}
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- attachments.Run(ctx) }()
	return func() error {
		unsubscribe()
		return <-ended
	}, attachments.WaitForSync(ctx)
}

// awaitAttached waits until the nodes report n volumes.
func (r *reaction) awaitAttached(ctx context.Context, n int) error {
	return until(ctx, fmt.Sprintf("the nodes report %d volumes", n), func() (bool, error) {
		time.Sleep(500 * time.Millisecond) // a list of many nodes takes a processor's time
		nodes, err := r.cluster.Nodes().List(ctx, metav1.ListOptions{})
		count := 0
		for i := range nodes.Items {
			count += len(nodes.Items[i].Status.VolumesAttached)
		}
		return count == n, err
	})
}

// measure binds pods at a rate, and then as many at once.
func (r *reaction) measure(ctx context.Context, out io.Writer) error {
	for turn, way := range []string{fmt.Sprintf("one every %v", r.every), "all at once"} {
		first := r.pods + turn*r.bound
		for i := range r.bound {
			if err := r.createVolume(ctx, first+i); err != nil {
				return err
			}
		}
		time.Sleep(time.Second) // the caches have the volumes
		began := make([]time.Time, r.bound)
		for i := range r.bound {
			began[i] = time.Now()
			if err := r.createPod(ctx, first+i, true); err != nil {
				return err
			}
			if turn == 0 {
				time.Sleep(r.every)
			}
		}
		if err := r.awaitAttached(ctx, r.attached+(turn+1)*r.bound); err != nil {
			return err
		}
		times := make([]time.Duration, r.bound)
		for i := range times {
			times[i] = r.calls[r.volumeOf(first+i)].Sub(began[i])
		}
		slices.Sort(times)
		_, _ = fmt.Fprintf(out, "  %d pods bound, %s: attach called after p50 %v, p99 %v, at most %v\n", r.bound, way,
			times[r.bound/2].Round(10*time.Microsecond), times[r.bound*99/100].Round(10*time.Microsecond), times[r.bound-1].Round(10*time.Microsecond))
	}
	return nil
}
