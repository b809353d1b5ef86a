package expand_test

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
	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

const (
	namespace = "default"
	identity  = "expander"
	driver    = "driver.example.com"
)

// A world is a cluster with a storage in a bubble of testing/synctest.
type world struct {
	*simtest.Bed
	storage *storage
	config  expand.Config
}

// A storage has the sizes of volumes, and fails as told.
type storage struct {
	mu        sync.Mutex
	sizes     map[string]resource.Quantity
	calls     []string
	isForeign bool          // of another program
	onNode    bool          // a node has to finish
	extra     string        // more than requested, once
	failures  []error       // of the next calls
	hasEffect bool          // a failing call takes effect
	delay     time.Duration // of each call
}

func (s *storage) Name(*v1.PersistentVolume) string {
	if s.isForeign {
		return ""
	}
	return driver
}

// setDelay sets the duration of each later call.
func (s *storage) setDelay(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

func (s *storage) Expand(ctx context.Context, req volume.ExpandRequest) (volume.ExpandResult, error) {
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return volume.ExpandResult{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := req.Spec.PersistentVolume.Name
	s.calls = append(s.calls, req.OldSize.String()+" to "+req.NewSize.String())
	var err error
	if len(s.failures) > 0 {
		err, s.failures = s.failures[0], s.failures[1:]
	}
	if size := s.sizes[name]; (err == nil || s.hasEffect) && size.Cmp(req.NewSize) < 0 {
		size = req.NewSize
		if s.extra != "" {
			size.Add(resource.MustParse(s.extra))
			s.extra = ""
		}
		s.sizes[name] = size
	}
	if err != nil {
		return volume.ExpandResult{}, err
	}
	return volume.ExpandResult{Size: s.sizes[name], NodeExpansionRequired: s.onNode}, nil
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	simtest.InBed(t, identity, func(b *simtest.Bed) {
		w := &world{Bed: b, storage: &storage{sizes: map[string]resource.Quantity{}}}
		w.config = expand.Config{Expander: w.storage, Events: b.Announce}
		test(w)
	})
}

// start starts a controller. end crashes its process.
func (w *world) start() (end func()) {
	w.Helper()
	return w.Start(time.Millisecond, func(ctx context.Context, cluster *apitest.Cluster) error {
		config := w.config
		config.Cluster = cluster
		return simtest.Run(expand.New(config))(ctx)
	})
}

// asked returns the calls of the storage since the last time.
func (w *world) asked() []string {
	w.storage.mu.Lock()
	defer w.storage.mu.Unlock()
	calls := w.storage.calls
	w.storage.calls = nil
	return calls
}

// addPair creates a claim and a volume that are bound to each other, with 1 GiB each.
func (w *world) addPair() {
	w.Helper()
	_, err := newPair(w.Context(), w.Cluster, v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "server", Path: "/disk"}})
	require.NoError(w, err)
	w.storage.sizes["disk"] = resource.MustParse("1Gi")
}

// newPair creates a claim and a volume that are bound to each other, with 1 GiB each, and a class that
// permits expansion.
func newPair(ctx context.Context, cluster api.Cluster, source v1.PersistentVolumeSource) (*v1.PersistentVolumeClaim, error) {
	class, yes := "growing", true
	if _, err := cluster.StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: driver, AllowVolumeExpansion: &yes,
	}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	one := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim, err := cluster.PersistentVolumeClaims(namespace).Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: modes, VolumeName: "disk",
			Resources: v1.VolumeResourceRequirements{Requests: one},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if _, err = cluster.PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: modes, Capacity: one, PersistentVolumeSource: source,
			ClaimRef: &v1.ObjectReference{Namespace: namespace, Name: "data", UID: claim.UID},
		},
	}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: one}
	return cluster.PersistentVolumeClaims(namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
}

func (w *world) claim() *v1.PersistentVolumeClaim {
	w.Helper()
	claim, err := w.Cluster.PersistentVolumeClaims(namespace).Get(w.Context(), "data", metav1.GetOptions{})
	require.NoError(w, err)
	return claim
}

func (w *world) volume() *v1.PersistentVolume {
	w.Helper()
	pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), "disk", metav1.GetOptions{})
	require.NoError(w, err)
	return pv
}

// request changes the request of the claim.
func (w *world) request(size string) {
	w.Helper()
	claim := w.claim()
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	_, err := w.Cluster.PersistentVolumeClaims(namespace).Update(w.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// setStatus changes the status of the claim, as a node does.
func (w *world) setStatus(change func(*v1.PersistentVolumeClaimStatus)) {
	w.Helper()
	require.NoError(w, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the controller may write as well
		claim := w.claim()
		change(&claim.Status)
		_, err := w.Cluster.PersistentVolumeClaims(namespace).UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
		return err
	}))
}

// finishOnNode grows the file system to the size of the volume.
func (w *world) finishOnNode() {
	w.Helper()
	capacity := w.volume().Spec.Capacity
	w.setStatus(func(status *v1.PersistentVolumeClaimStatus) {
		status.Capacity, status.AllocatedResourceStatuses, status.Conditions = capacity, nil, nil
	})
}

// state returns the sizes and the state of the claim and its volume in one line.
func (w *world) state() string {
	w.Helper()
	claim, pv := w.claim(), w.volume()
	parts := []string{
		"capacity " + claim.Status.Capacity.Storage().String(), "volume " + pv.Spec.Capacity.Storage().String(),
	}
	if state := claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]; state != "" {
		allocated := claim.Status.AllocatedResources[v1.ResourceStorage]
		parts = append(parts, string(state)+" "+allocated.String())
	}
	var conditions []string
	for _, c := range claim.Status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	slices.Sort(conditions)
	parts = append(parts, conditions...)
	for _, annotations := range []map[string]string{claim.Annotations, pv.Annotations} {
		for _, name := range slices.Sorted(maps.Keys(annotations)) {
			if name == expand.CompleteAnnotation || name == expand.CapacityBeforeAnnotation {
				parts = append(parts, name[strings.Index(name, "/")+1:]+"="+annotations[name])
			}
		}
	}
	return strings.Join(parts, ", ")
}
