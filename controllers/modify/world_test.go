package modify_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/modify"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	namespace = "default"
	identity  = "modifier"
	driver    = "driver.example.com"
)

// A world is a cluster with a storage in a bubble of testing/synctest. It has the classes "slow" and "fast",
// and the claim "data" with the volume "disk".
type world struct {
	*simtest.Bed
	storage *storage
	config  modify.Config
}

// A storage has the attributes of volumes, and fails as told.
type storage struct {
	mu        sync.Mutex
	iops      map[string]string // by volume
	calls     []string
	isForeign bool          // of another program
	failures  []error       // of the next calls
	hasEffect bool          // a failing call takes effect
	delay     time.Duration // of each call
	panics    int           // a call that panics after its effect: the next one is 1
}

func (s *storage) Name(*v1.PersistentVolume) string {
	if s.isForeign {
		return ""
	}
	return driver
}

func (s *storage) Modify(ctx context.Context, req modify.Request) error {
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return volume.AsTransient(ctx.Err()) // wrongly
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprint(req.Class, " ", req.Parameters["iops"]))
	var err error
	if len(s.failures) > 0 {
		err, s.failures = s.failures[0], s.failures[1:]
	}
	if err == nil || s.hasEffect {
		s.iops[req.Volume.Name] = req.Parameters["iops"]
	}
	if s.panics--; s.panics == 0 {
		panic("a bug")
	}
	return err
}

// set changes the storage.
func (s *storage) set(change func(*storage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	simtest.InBed(t, identity, func(b *simtest.Bed) {
		w := &world{Bed: b, storage: &storage{iops: map[string]string{}}}
		w.config = modify.Config{Modifier: w.storage, Events: b.Announce}
		w.addClass("slow", driver, "10")
		w.addClass("fast", driver, "100")
		require.NoError(b, createPair(b.Context(), b.Cluster))
		test(w)
	})
}

// start starts a controller. end crashes its process.
func (w *world) start() (end func()) {
	w.Helper()
	return w.Start(20*time.Millisecond, func(ctx context.Context, cluster *apitest.Cluster) error {
		config := w.config
		config.Cluster = cluster
		return simtest.Run(modify.New(config))(ctx)
	})
}

// asked returns the calls of the storage since the last time.
func (w *world) asked() (calls []string) {
	w.storage.set(func(s *storage) { calls, s.calls = s.calls, nil })
	return calls
}

func (w *world) addClass(name, driver, iops string) {
	w.Helper()
	_, err := w.Cluster.VolumeAttributesClasses().Create(w.Context(), newClass(name, driver, iops), metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *world) deleteClass(name string) {
	w.Helper()
	require.NoError(w, w.Cluster.VolumeAttributesClasses().Delete(w.Context(), name, metav1.DeleteOptions{}))
}

func newClass(name, driver, iops string) *storagev1beta1.VolumeAttributesClass {
	return &storagev1beta1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: driver, Parameters: map[string]string{"iops": iops},
	}
}

// createPair creates a claim and a volume that are bound to each other.
func createPair(ctx context.Context, cluster api.Cluster) error {
	one, modes := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claims := cluster.PersistentVolumeClaims(namespace)
	claim, err := claims.Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"},
		Spec:       v1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: "disk", Resources: v1.VolumeResourceRequirements{Requests: one}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = cluster.PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: one,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "disk"}},
			ClaimRef:               &v1.ObjectReference{Namespace: namespace, Name: "data", UID: claim.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: one}
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// ask makes the claim name a class.
func (w *world) ask(class string) {
	w.Helper()
	claims := w.Cluster.PersistentVolumeClaims(namespace)
	claim, err := claims.Get(w.Context(), "data", metav1.GetOptions{})
	require.NoError(w, err)
	claim.Spec.VolumeAttributesClassName = &class
	_, err = claims.Update(w.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// updateStatus changes the status of the claim, as another program does.
func (w *world) updateStatus(change func(*v1.PersistentVolumeClaimStatus)) {
	w.Helper()
	claims := w.Cluster.PersistentVolumeClaims(namespace)
	claim, err := claims.Get(w.Context(), "data", metav1.GetOptions{})
	require.NoError(w, err)
	change(&claim.Status)
	_, err = claims.UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w, err)
}

func ptr(text string) *string { return &text }

// showInVolume writes a class to the volume, as another program does.
func (w *world) showInVolume(class string) {
	w.Helper()
	pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), "disk", metav1.GetOptions{})
	require.NoError(w, err)
	pv.Spec.VolumeAttributesClassName = &class
	_, err = w.Cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// state returns the classes and the state of the claim and its volume, and the attributes of the storage.
func (w *world) state() string {
	w.Helper()
	claim, err := w.Cluster.PersistentVolumeClaims(namespace).Get(w.Context(), "data", metav1.GetOptions{})
	require.NoError(w, err)
	pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), "disk", metav1.GetOptions{})
	require.NoError(w, err)
	parts := []string{"class " + value(claim.Status.CurrentVolumeAttributesClassName), "volume " + value(pv.Spec.VolumeAttributesClassName)}
	if s := claim.Status.ModifyVolumeStatus; s != nil {
		parts = append(parts, string(s.Status)+" "+s.TargetVolumeAttributesClassName)
	}
	conditions := map[string]bool{}
	for _, c := range claim.Status.Conditions {
		conditions[fmt.Sprintf("%s=%s", c.Type, c.Status)] = true
	}
	parts = append(parts, slices.Sorted(maps.Keys(conditions))...)
	w.storage.set(func(s *storage) { parts = append(parts, "iops "+s.iops["disk"]) })
	return strings.Join(parts, ", ")
}

func value(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}
