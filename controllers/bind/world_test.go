package bind_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

const namespace = "default"

// A world is a cluster in memory, in a bubble of testing/synctest.
type world struct {
	*testing.T
	server  *apitest.Server
	cluster api.Cluster // of the test
	config  bind.Config

	mu     sync.Mutex
	events []string
	ends   []func()
	last   *bind.Controller // the one that was started last
}

// longest is far more than the real time of any test in a bubble. A bubble in which a goroutine never waits does not
// end.
const longest = 2 * time.Minute

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	watchdog := time.AfterFunc(longest, func() { panic("--- FAIL: " + t.Name() + " does not end: a controller never waits") })
	defer watchdog.Stop()
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{Seed: 1})
		w := &world{T: t, server: server, cluster: server.Direct()}
		w.config.Events = func(e api.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e.Reason)
		}
		defer w.stopAll()
		test(w)
	})
}

// start starts a controller. end crashes its process.
func (w *world) start() (end func()) {
	w.Helper()
	return w.startAs("binder")
}

// startAs starts a controller with an identity.
func (w *world) startAs(identity string) (end func()) {
	w.Helper()
	cluster := w.server.Connect(identity)
	config := w.config
	config.Cluster = cluster
	controller, err := bind.New(config)
	require.NoError(w, err)
	w.last = controller
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cluster.Crash()
		cancel()
		require.NoError(w, <-ended)
	})
	w.ends = append(w.ends, end)
	return end
}

func (w *world) stopAll() {
	for _, end := range w.ends {
		end()
	}
}

// wait waits for a duration, and until nothing happens.
func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// reasons returns the reasons of the events so far, and forgets them.
func (w *world) reasons() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

// writes returns the writes of the controller so far as short texts, and forgets all calls.
func (w *world) writes() (texts []string) {
	for _, call := range w.server.Calls(apitest.Call{Identity: "binder"}) {
		if call.Verb == apitest.List || call.Verb == apitest.Watch || call.Verb == apitest.Get {
			continue
		}
		text := call.String()
		if call.Err != nil {
			text += " fails"
		}
		texts = append(texts, strings.ReplaceAll(text, "persistentvolume", ""))
	}
	w.server.ForgetCalls()
	return texts
}

func newVolume(name, size string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pv.Spec.NFS = &v1.NFSVolumeSource{Server: "server", Path: "/" + name}
	return pv
}

func newClaim(name, size string) *v1.PersistentVolumeClaim {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{}}}
	claim.Spec.StorageClassName = new(string)
	claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	return claim
}

// newClass returns a class that waits for the first consumer if isLate is set.
func newClass(name, provisioner string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner}
}

func (w *world) createVolume(pv *v1.PersistentVolume) *v1.PersistentVolume {
	w.Helper()
	created, err := w.cluster.PersistentVolumes().Create(w.Context(), pv, metav1.CreateOptions{})
	require.NoError(w, err)
	return created
}

func (w *world) createClaim(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	w.Helper()
	created, err := w.cluster.PersistentVolumeClaims(namespace).Create(w.Context(), claim, metav1.CreateOptions{})
	require.NoError(w, err)
	return created
}

func (w *world) createClass(class *storagev1.StorageClass) {
	w.Helper()
	_, err := w.cluster.StorageClasses().Create(w.Context(), class, metav1.CreateOptions{})
	require.NoError(w, err)
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

func (w *world) claim(name string) *v1.PersistentVolumeClaim {
	w.Helper()
	claim, err := w.cluster.PersistentVolumeClaims(namespace).Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	return claim
}

// state returns the phases and references of a claim and a volume, such as "Bound pv <- Bound a".
func (w *world) state(claim, volume string) string {
	w.Helper()
	c, pv, ref := w.claim(claim), w.volume(volume), "-"
	if pv.Spec.ClaimRef != nil {
		ref = pv.Spec.ClaimRef.Name
	}
	name := c.Spec.VolumeName
	if name == "" {
		name = "-"
	}
	return fmt.Sprintf("%s %s <- %s %s", c.Status.Phase, name, pv.Status.Phase, ref)
}

// updateVolume changes a volume, also while the controller writes it.
func (w *world) updateVolume(name string, change func(*v1.PersistentVolume)) {
	w.Helper()
	require.NoError(w, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pv := w.volume(name)
		change(pv)
		_, err := w.cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
		return err
	}))
}

func (w *world) updateClaim(name string, change func(*v1.PersistentVolumeClaim)) {
	w.Helper()
	require.NoError(w, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		claim := w.claim(name)
		change(claim)
		_, err := w.cluster.PersistentVolumeClaims(namespace).Update(w.Context(), claim, metav1.UpdateOptions{})
		return err
	}))
}

const claimProtection = "kubernetes.io/pvc-protection"

// deleteClaim deletes a claim that no pod uses.
func (w *world) deleteClaim(name string) {
	w.Helper()
	require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
	w.updateClaim(name, func(c *v1.PersistentVolumeClaim) {
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == claimProtection })
	})
}

func newPod(name, claim string, uid types.UID) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"claim": string(uid)}}}
	pod.Spec.NodeName = "node"
	pod.Spec.Containers = []v1.Container{{Name: "c", Image: "i"}}
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	return pod
}

func (w *world) createPod(pod *v1.Pod) {
	w.Helper()
	_, err := w.cluster.Pods(namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *world) deletePod(name string) {
	w.Helper()
	require.NoError(w, w.cluster.Pods(namespace).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

const volumeProtection = "kubernetes.io/pv-protection"

// unprotectVolumes removes the protection of unbound volumes in deletion.
func (w *world) unprotectVolumes() {
	w.Helper()
	require.NoError(w, unprotectVolumes(w.Context(), w.cluster))
	synctest.Wait()
}

func unprotectVolumes(ctx context.Context, cluster api.Cluster) error {
	list, err := cluster.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pv := range list.Items {
		if pv.DeletionTimestamp != nil && pv.Status.Phase != v1.VolumeBound && slices.Contains(pv.Finalizers, volumeProtection) {
			pv.Finalizers = slices.DeleteFunc(pv.Finalizers, func(f string) bool { return f == volumeProtection })
			if _, err := cluster.PersistentVolumes().Update(ctx, &pv, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}
