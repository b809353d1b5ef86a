package protect_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/protect"
	"github.com/volumekit/volumekit/internal/metricstest"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	namespace = "default"
	identity  = "protector"
)

// A world is a cluster in a bubble of testing/synctest.
type world struct {
	*testing.T
	server  *apitest.Server
	cluster api.Cluster // of the test
	config  protect.Config
	metrics *metricstest.Recorder

	mu     sync.Mutex
	events []string
	ends   []func()
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{Seed: 1})
		w := &world{T: t, server: server, cluster: server.Direct(), metrics: metricstest.New(t)}
		w.config = protect.Config{Metrics: w.metrics, Events: func(e api.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, fmt.Sprintf("%s %s %s: %s", e.Object.(api.Object).GetName(), e.Type, e.Reason, e.Message))
		}}
		defer func() {
			for _, end := range w.ends {
				end()
			}
		}()
		test(w)
	})
}

// start starts a controller. end crashes its process.
func (w *world) start() (end func()) {
	w.Helper()
	p := simtest.StartProcess(w.Context(), w.server, identity, func(ctx context.Context, cluster *apitest.Cluster) error {
		config := w.config
		config.Cluster = cluster
		controller, err := protect.New(config)
		if err != nil {
			return err
		}
		return controller.Run(ctx)
	})
	end = sync.OnceFunc(func() {
		if err := p.Crash(); err != nil {
			w.Error(err)
		}
	})
	w.ends = append(w.ends, end)
	w.wait(time.Second)
	return end
}

// wait waits for a duration, and until nothing happens.
func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// calls returns the calls of the controller since the last time, without watches and lists of caches.
func (w *world) calls() (all []string) {
	for _, call := range w.server.Calls(apitest.Call{Identity: identity}) {
		if call.Verb != apitest.Watch && (call.Verb != apitest.List || call.Namespace != "") {
			all = append(all, call.String())
		}
	}
	w.server.ForgetCalls()
	return all
}

func newClaim(name string) *v1.PersistentVolumeClaim {
	class := ""
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func newVolume(name string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Capacity:               v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "server", Path: "/" + name}},
		},
	}
}

// newPod returns a pod without a node that names claims.
func newPod(name string, claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pod.Spec.Containers = []v1.Container{{Name: "c", Image: "i"}}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{
			Name: claim, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
		})
	}
	return pod
}

// withEphemeral adds ephemeral volumes to a pod.
func withEphemeral(pod *v1.Pod, names ...string) *v1.Pod {
	for _, name := range names {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"label": name}, Annotations: map[string]string{"annotation": name}},
				Spec:       newClaim("").Spec,
			}},
		}})
	}
	return pod
}

// onNode assigns a pod to a node.
func onNode(pod *v1.Pod) *v1.Pod {
	pod.Spec.NodeName = "node"
	return pod
}

func (w *world) createClaim(name string) *v1.PersistentVolumeClaim {
	w.Helper()
	claim, err := w.cluster.PersistentVolumeClaims(namespace).Create(w.Context(), newClaim(name), metav1.CreateOptions{})
	require.NoError(w, err)
	return claim
}

func (w *world) createVolume(pv *v1.PersistentVolume) *v1.PersistentVolume {
	w.Helper()
	pv, err := w.cluster.PersistentVolumes().Create(w.Context(), pv, metav1.CreateOptions{})
	require.NoError(w, err)
	return pv
}

func (w *world) createPod(pod *v1.Pod) *v1.Pod {
	w.Helper()
	pod, err := w.cluster.Pods(namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	require.NoError(w, err)
	return pod
}

// claim returns a claim, or nil.
func (w *world) claim(name string) *v1.PersistentVolumeClaim {
	w.Helper()
	claim, err := w.cluster.PersistentVolumeClaims(namespace).Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w, err)
	return claim
}

// volume returns a volume, or nil.
func (w *world) volume(name string) *v1.PersistentVolume {
	w.Helper()
	pv, err := w.cluster.PersistentVolumes().Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w, err)
	return pv
}

func (w *world) updateClaim(name string, change func(*v1.PersistentVolumeClaim)) {
	w.Helper()
	claim := w.claim(name)
	change(claim)
	_, err := w.cluster.PersistentVolumeClaims(namespace).Update(w.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w, err)
}

func (w *world) updateVolume(name string, change func(*v1.PersistentVolume)) {
	w.Helper()
	pv := w.volume(name)
	change(pv)
	_, err := w.cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
}

func (w *world) setPhase(name string, phase v1.PersistentVolumePhase) {
	w.Helper()
	pv := w.volume(name)
	pv.Status.Phase = phase
	_, err := w.cluster.PersistentVolumes().UpdateStatus(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
}

func (w *world) updatePodStatus(name string, change func(*v1.Pod)) {
	w.Helper()
	pod, err := w.cluster.Pods(namespace).Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	change(pod)
	_, err = w.cluster.Pods(namespace).UpdateStatus(w.Context(), pod, metav1.UpdateOptions{})
	require.NoError(w, err)
}

func (w *world) deleteClaim(name string) {
	w.Helper()
	require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

func (w *world) deleteVolume(name string) {
	w.Helper()
	require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

// deletePod deletes a pod with a grace period in seconds.
func (w *world) deletePod(name string, grace int64) {
	w.Helper()
	require.NoError(w, w.cluster.Pods(namespace).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	synctest.Wait()
}

// without removes a finalizer.
func without(finalizers []string, name string) []string {
	return slices.DeleteFunc(finalizers, func(f string) bool { return f == name })
}
