package provision_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	driver    = "example.com/fake"
	namespace = "default"
)

// A storage is a storage system in memory. Its volumes outlive the controllers.
type storage struct {
	mu      sync.Mutex
	volumes map[string]types.UID // the claims of the volumes, by the volumes' names
	calls   []string
	// faults change calls by their verbs.
	faults map[string]fault
	// check is called at the begin of each deletion.
	check func(name string)
	made  []provision.Options // of the calls that had an effect
	// server and system are in the descriptions of volumes.
	server, system string
}

// A fault returns the errors of a call: early ones come before the effect, late ones after it.
type fault func(ctx context.Context, name string) (early, late error)

func newStorage() *storage {
	return &storage{volumes: map[string]types.UID{}, faults: map[string]fault{}, server: "server"}
}

// on sets the fault of the calls of a verb from now on. Nil: none.
func (s *storage) on(verb string, f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[verb] = f
}

// do makes a call with its errors.
func (s *storage) do(ctx context.Context, verb, name string, effect func()) error {
	s.mu.Lock()
	s.calls = append(s.calls, verb+" "+name)
	f := s.faults[verb]
	s.mu.Unlock()
	var early, late error
	if f != nil {
		early, late = f(ctx, name)
	}
	if early != nil {
		return early
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	effect()
	return late
}

func (s *storage) Provision(ctx context.Context, o provision.Options) (pv *v1.PersistentVolume, err error) {
	err = s.do(ctx, "provision", o.PVName, func() {
		s.made = append(s.made, o)
		if _, ok := s.volumes[o.PVName]; !ok {
			s.volumes[o.PVName] = o.PVC.UID
		}
	})
	if err != nil && !errors.As(err, new(*provision.RefusalError)) {
		return nil, err
	}
	pv = &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{volume.StorageAnnotation: s.system}}}
	pv.Spec.NFS = &v1.NFSVolumeSource{Server: s.server, Path: "/" + o.PVName}
	return pv, err
}

func (s *storage) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	if s.check != nil {
		s.check(pv.Name)
	}
	return s.do(ctx, "delete", pv.Name, func() { delete(s.volumes, pv.Name) })
}

// names returns the names of the volumes.
func (s *storage) names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.volumes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// callsOf returns the number of calls so far.
func (s *storage) callsOf(verb string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.calls {
		if len(call) > len(verb) && call[:len(verb)] == verb {
			n++
		}
	}
	return n
}

// A world is a cluster with a binder and a storage, in a bubble of testing/synctest.
type world struct {
	*testing.T
	server  *apitest.Server
	cluster api.Cluster // of the test
	storage *storage
	config  provision.Config
	steps   func(progress.Report) // receives the steps of controllers, or nil

	mu     sync.Mutex
	events []string
	ends   []func()
	last   *provision.Controller // the one that was started last
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{Seed: 1})
		w := &world{T: t, server: server, cluster: server.Direct(), storage: newStorage()}
		w.config = provision.Config{
			Name: driver, Provisioner: w.storage,
			Events: func(e api.Event) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.events = append(w.events, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
			},
		}
		w.storage.check = func(name string) {
			if err := mayDelete(w.Context(), w.cluster, name); err != nil {
				w.Errorf("deletion of %s: %v", name, err)
			}
		}
		defer w.stopAll()
		test(w)
	})
}

// mayDelete returns an error if the storage of a volume must not be deleted by the present state of the
// API server. Storage without an object is no data of a claim.
func mayDelete(ctx context.Context, cluster api.Cluster, name string) error {
	pv, err := cluster.PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || pv.Status.Phase != v1.VolumeReleased || pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
		return fmt.Errorf("volume %s is %s, with the policy %s: %w", name, pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy, err)
	}
	claims, err := cluster.PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, claim := range claims.Items {
		if claim.UID == pv.Spec.ClaimRef.UID {
			return fmt.Errorf("claim %s lives", claim.Name)
		}
	}
	return nil
}

// start starts a controller. Its process crashes with end, or with the returned cluster.
func (w *world) start() (cluster *apitest.Cluster, end func()) {
	w.Helper()
	return w.startAs("provisioner")
}

// startAs starts a controller with an identity.
func (w *world) startAs(identity string) (cluster *apitest.Cluster, end func()) {
	w.Helper()
	cluster = w.server.Connect(identity)
	config := w.config
	config.Cluster = cluster
	controller, err := provision.New(config)
	require.NoError(w, err)
	w.last = controller
	ctx, cancel := context.WithCancel(progress.With(w.Context(), w.steps))
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx) }()
	context.AfterFunc(ctx, cluster.Crash)
	go func() {
		select {
		case <-cluster.Crashed():
			cancel()
		case <-ctx.Done():
		}
	}()
	end = sync.OnceFunc(func() {
		cluster.Crash()
		cancel()
		require.NoError(w, <-ended)
	})
	w.ends = append(w.ends, end)
	return cluster, end
}

func (w *world) stopAll() {
	for _, end := range w.ends {
		end()
	}
	w.ends = nil
}

// wait waits for a duration, and until nothing happens.
func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// eventsOf returns the events so far with a reason.
func (w *world) eventsOf(reason string) (found []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		var kind, rest string
		_, _ = fmt.Sscan(e, &kind, &rest)
		if rest == reason+":" {
			found = append(found, e)
		}
	}
	return found
}

func newClass(name string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driver}
}

func newClaim(name, class string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{provision.ProvisionerAnnotation: driver}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func (w *world) createClass(class *storagev1.StorageClass) *storagev1.StorageClass {
	w.Helper()
	created, err := w.cluster.StorageClasses().Create(w.Context(), class, metav1.CreateOptions{})
	require.NoError(w, err)
	return created
}

func (w *world) createClaim(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	w.Helper()
	created, err := w.cluster.PersistentVolumeClaims(claim.Namespace).Create(w.Context(), claim, metav1.CreateOptions{})
	require.NoError(w, err)
	return created
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

// deleteClaim deletes a claim that no pod uses.
func (w *world) deleteClaim(name string) {
	w.Helper()
	require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
	unprotect(w.Context(), w.cluster)
}

// volumes returns all volumes.
func (w *world) volumes() []v1.PersistentVolume {
	w.Helper()
	list, err := w.cluster.PersistentVolumes().List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	return list.Items
}

// volume returns a volume, or nil.
func (w *world) volume(name string) *v1.PersistentVolume {
	for _, pv := range w.volumes() {
		if pv.Name == name {
			return &pv
		}
	}
	return nil
}

// updateVolume changes a volume, and its status.
func (w *world) updateVolume(name string, change func(*v1.PersistentVolume)) {
	w.Helper()
	pv := w.volume(name)
	require.NotNil(w, pv)
	change(pv)
	status := pv.Status
	pv, err := w.cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
	if pv.Status.Phase == status.Phase {
		return // a write for nothing would conflict with those of the controller
	}
	pv.Status = status
	_, err = w.cluster.PersistentVolumes().UpdateStatus(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
}

func (w *world) updateClaim(name string, change func(*v1.PersistentVolumeClaim)) {
	w.Helper()
	claim := w.claim(name)
	require.NotNil(w, claim)
	change(claim)
	_, err := w.cluster.PersistentVolumeClaims(namespace).Update(w.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// bind does the work of the binder and of the protection controllers once.
func (w *world) bind() {
	w.Helper()
	require.NoError(w, bindAll(w.Context(), w.cluster))
	unprotect(w.Context(), w.cluster)
	synctest.Wait()
}

// bindAll binds each volume that is reserved for a claim, and releases the others.
func bindAll(ctx context.Context, cluster api.Cluster) error {
	volumes, err := cluster.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	claims, err := cluster.PersistentVolumeClaims("").List(ctx, metav1.ListOptions{}) // later: no claim of a volume is missing
	if err != nil {
		return err
	}
	byUID := map[types.UID]*v1.PersistentVolumeClaim{}
	for i := range claims.Items {
		byUID[claims.Items[i].UID] = &claims.Items[i]
	}
	for _, pv := range volumes.Items {
		if pv.Spec.ClaimRef == nil {
			continue
		}
		claim := byUID[pv.Spec.ClaimRef.UID]
		if claim == nil {
			err = setPhase(ctx, cluster, &pv, v1.VolumeReleased)
		} else if pv.Status.Phase != v1.VolumeReleased {
			err = bindOne(ctx, cluster, claim, &pv)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func bindOne(ctx context.Context, cluster api.Cluster, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) (err error) {
	claims := cluster.PersistentVolumeClaims(claim.Namespace)
	if claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil {
		claim.Spec.VolumeName = pv.Name
		if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if claim.Spec.VolumeName == pv.Name && claim.Status.Phase != v1.ClaimBound { // or an earlier attempt ended between the writes
		claim.Status.Phase, claim.Status.Capacity = v1.ClaimBound, pv.Spec.Capacity
		if _, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return setPhase(ctx, cluster, pv, v1.VolumeBound)
}

func setPhase(ctx context.Context, cluster api.Cluster, pv *v1.PersistentVolume, phase v1.PersistentVolumePhase) error {
	if pv.Status.Phase == phase {
		return nil
	}
	pv.Status.Phase = phase
	_, err := cluster.PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{})
	return err
}

const (
	claimProtection  = "kubernetes.io/pvc-protection"
	volumeProtection = "kubernetes.io/pv-protection"
)

// unprotect removes the protection finalizers of claims and unbound volumes in deletion.
func unprotect(ctx context.Context, cluster api.Cluster) {
	claims, _ := cluster.PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	for _, claim := range claims.Items {
		if claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, claimProtection) {
			claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == claimProtection })
			_, _ = cluster.PersistentVolumeClaims(claim.Namespace).Update(ctx, &claim, metav1.UpdateOptions{})
		}
	}
	unprotectVolumes(ctx, cluster)
}

func unprotectVolumes(ctx context.Context, cluster api.Cluster) {
	volumes, _ := cluster.PersistentVolumes().List(ctx, metav1.ListOptions{})
	for _, pv := range volumes.Items {
		if pv.DeletionTimestamp != nil && pv.Status.Phase != v1.VolumeBound && slices.Contains(pv.Finalizers, volumeProtection) {
			pv.Finalizers = slices.DeleteFunc(pv.Finalizers, func(f string) bool { return f == volumeProtection })
			_, _ = cluster.PersistentVolumes().Update(ctx, &pv, metav1.UpdateOptions{})
		}
	}
}
