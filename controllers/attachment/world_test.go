package attachment_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	identity  = "attacher"
	driver    = "disk.csi.example.com"
	finalizer = "external-attacher/disk-csi-example-com"
	other     = "example.com/other" // a finalizer of another program
)

// A world is a cluster with a storage in a bubble of testing/synctest.
type world struct {
	*simtest.Bed
	storage *storage
	config  attachment.Config
}

// A storage has attached volumes, and fails as told.
type storage struct {
	mu        sync.Mutex
	attached  map[string]bool // HANDLE to NODE ID
	calls     []string
	volumes   []*v1.PersistentVolume // of the calls
	failures  []error                // of the next calls
	hasEffect bool                   // a failing call takes effect
	delay     time.Duration          // of each call
	isWaiting bool                   // a call begins after its delay
	metadata  map[string]string
}

func newStorage() *storage {
	return &storage{attached: map[string]bool{}, metadata: map[string]string{"device": "/dev/sda"}}
}

func (s *storage) Name() string { return driver }

// set changes the storage.
func (s *storage) set(change func(*storage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// begin waits for the duration of a call, and returns the error to fail with.
func (s *storage) begin(ctx context.Context, call string, req attachment.Request) error {
	s.mu.Lock()
	delay, isWaiting := s.delay, s.isWaiting
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		if isWaiting {
			return volume.AsTransient(ctx.Err())
		}
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	s.volumes = append(s.volumes, req.Volume)
	var err error
	if len(s.failures) > 0 {
		err, s.failures = s.failures[0], s.failures[1:]
	}
	return err
}

func pairOf(req attachment.Request) string {
	return req.Volume.Spec.CSI.VolumeHandle + " to " + req.NodeID
}

func (s *storage) Attach(ctx context.Context, req attachment.Request) (map[string]string, error) {
	err := s.begin(ctx, "attach "+pairOf(req), req)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || s.hasEffect {
		s.attached[pairOf(req)] = true
	}
	if err != nil {
		return nil, err
	}
	return maps.Clone(s.metadata), nil
}

func (s *storage) Detach(ctx context.Context, req attachment.Request) error {
	err := s.begin(ctx, "detach "+pairOf(req), req)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || s.hasEffect {
		delete(s.attached, pairOf(req))
	}
	return err
}

// A checkingStorage checks volumes.
type checkingStorage struct {
	*storage
	err    error
	checks int
}

func (s *checkingStorage) Check(context.Context, *v1.PersistentVolume) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks++
	return s.err
}

// A listingStorage lists its attached volumes.
type listingStorage struct {
	*storage
	lists int
	err   error
	took  time.Duration // of each list
	early time.Duration // from the moment that a list shows until its end
}

// count returns the number of lists.
func (s *listingStorage) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

func (s *listingStorage) ListAttached(ctx context.Context) ([]attachment.Attached, error) {
	if err := ctxend.Sleep(ctx, s.took-s.early); err != nil {
		return nil, err
	}
	list := s.allAttached()
	if err := ctxend.Sleep(ctx, s.early); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	return list, s.err
}

func (s *listingStorage) allAttached() (list []attachment.Attached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pair := range s.attached {
		handle, id, _ := strings.Cut(pair, " to ")
		list = append(list, attachment.Attached{VolumeHandle: handle, NodeIDs: []string{id}})
	}
	return list
}

// inWorld runs a test in a bubble, with a volume "pv" of the handle "disk", and a node "node" of the ID
// "id-node".
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	simtest.InBed(t, identity, func(b *simtest.Bed) {
		w := &world{Bed: b, storage: newStorage()}
		w.config = attachment.Config{Attacher: w.storage, Events: b.Announce}
		w.addVolume("pv", "disk")
		w.addNode("node", "id-node")
		test(w)
	})
}

// start starts a controller. end crashes its process.
func (w *world) start() (end func()) {
	w.Helper()
	return w.startAs(identity)
}

func (w *world) startAs(identity string) (end func()) {
	w.Helper()
	return w.StartAs(identity, 20*time.Millisecond, func(ctx context.Context, cluster *apitest.Cluster) error {
		config := w.config
		config.Cluster = cluster
		return simtest.Run(attachment.New(config))(ctx)
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

// stored returns the attached volumes.
func (w *world) stored() []string {
	w.storage.mu.Lock()
	defer w.storage.mu.Unlock()
	return slices.Sorted(maps.Keys(w.storage.attached))
}

func newVolume(name, handle string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity:    v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeSource: v1.PersistentVolumeSource{
				CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle},
			},
		},
	}
}

func (w *world) addVolume(name, handle string) {
	w.Helper()
	_, err := w.Cluster.PersistentVolumes().Create(w.Context(), newVolume(name, handle), metav1.CreateOptions{})
	require.NoError(w, err)
}

func newNode(name, id string) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: id}}},
	}
}

func (w *world) addNode(name, id string) {
	w.Helper()
	_, err := w.Cluster.CSINodes().Create(w.Context(), newNode(name, id), metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *world) removeNode(name string) {
	w.Helper()
	require.NoError(w, w.Cluster.CSINodes().Delete(w.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

func newAttachment(name, volume, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}
}

// add creates a VolumeAttachment of the volume "pv".
func (w *world) add(name, node string) {
	w.Helper()
	w.create(newAttachment(name, "pv", node))
}

func (w *world) create(attachment *storagev1.VolumeAttachment) {
	w.Helper()
	_, err := w.Cluster.VolumeAttachments().Create(w.Context(), attachment, metav1.CreateOptions{})
	require.NoError(w, err)
	synctest.Wait()
}

func (w *world) delete(name string) {
	w.Helper()
	require.NoError(w, w.Cluster.VolumeAttachments().Delete(w.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

// get returns a VolumeAttachment, or nil.
func (w *world) get(name string) *storagev1.VolumeAttachment {
	w.Helper()
	found, err := w.Cluster.VolumeAttachments().Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w, err)
	return found
}

// update changes the metadata of a VolumeAttachment.
func (w *world) update(name string, change func(*storagev1.VolumeAttachment)) {
	w.Helper()
	found := w.get(name)
	change(found)
	_, err := w.Cluster.VolumeAttachments().Update(w.Context(), found, metav1.UpdateOptions{})
	require.NoError(w, err)
	synctest.Wait()
}

// setStatus changes the status of a VolumeAttachment, as another controller does.
func (w *world) setStatus(name string, change func(*storagev1.VolumeAttachmentStatus)) {
	w.Helper()
	found := w.get(name)
	change(&found.Status)
	_, err := w.Cluster.VolumeAttachments().UpdateStatus(w.Context(), found, metav1.UpdateOptions{})
	require.NoError(w, err)
	synctest.Wait()
}

// volume returns the volume "pv", or nil.
func (w *world) volume() *v1.PersistentVolume {
	w.Helper()
	found, err := w.Cluster.PersistentVolumes().Get(w.Context(), "pv", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w, err)
	return found
}

func (w *world) updateVolume(change func(*v1.PersistentVolume)) {
	w.Helper()
	pv := w.volume()
	change(pv)
	_, err := w.Cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
	synctest.Wait()
}

// deleteVolume deletes the volume "pv", without the finalizer that protects it from users.
func (w *world) deleteVolume() {
	w.Helper()
	require.NoError(w, w.Cluster.PersistentVolumes().Delete(w.Context(), "pv", metav1.DeleteOptions{}))
	synctest.Wait()
	if w.volume() != nil {
		w.updateVolume(unprotect)
	}
	synctest.Wait()
}

func unprotect(pv *v1.PersistentVolume) {
	pv.Finalizers = slices.DeleteFunc(pv.Finalizers, func(name string) bool { return strings.HasPrefix(name, "kubernetes.io/") })
}

// replaceVolume gives the name "pv" to a volume with another handle, against all finalizers.
func (w *world) replaceVolume(handle string) {
	w.Helper()
	w.removeVolume()
	w.addVolume("pv", handle)
	synctest.Wait()
}

// removeVolume removes the volume "pv" against all finalizers.
func (w *world) removeVolume() {
	w.Helper()
	require.NoError(w, w.Cluster.PersistentVolumes().Delete(w.Context(), "pv", metav1.DeleteOptions{}))
	synctest.Wait()
	if w.volume() != nil {
		w.updateVolume(func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
	}
	require.Nil(w, w.volume())
}

// state returns the state of a VolumeAttachment in one line.
func (w *world) state(name string) string {
	w.Helper()
	found := w.get(name)
	if found == nil {
		return "gone"
	}
	var parts []string
	if found.DeletionTimestamp != nil {
		parts = append(parts, "deleting")
	}
	if slices.Contains(found.Finalizers, finalizer) {
		parts = append(parts, "guarded "+found.Annotations[attachment.VolumeHandleAnnotation]+" to "+found.Annotations[attachment.NodeIDAnnotation])
	}
	if found.Status.Attached {
		parts = append(parts, "attached")
	}
	for _, key := range slices.Sorted(maps.Keys(found.Status.AttachmentMetadata)) {
		parts = append(parts, key+"="+found.Status.AttachmentMetadata[key])
	}
	if err := found.Status.AttachError; err != nil {
		parts = append(parts, fmt.Sprintf("attach error %q", err.Message))
	}
	if err := found.Status.DetachError; err != nil {
		parts = append(parts, fmt.Sprintf("detach error %q", err.Message))
	}
	return strings.Join(parts, ", ")
}

// isVolumeGuarded reports whether the volume "pv" has the finalizer.
func (w *world) isVolumeGuarded() bool {
	w.Helper()
	return slices.Contains(w.volume().Finalizers, finalizer)
}
