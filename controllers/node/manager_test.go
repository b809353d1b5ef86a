package node_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runManager runs a manager on the source until stop, with a plugin in memory for the volume that
// newVolume returns for a claim. The functions change its configuration.
func (w *world) runManager(configure ...func(*manager.Config)) (m *manager.Manager, newVolume func(*v1.PersistentVolumeClaim) *v1.PersistentVolume, stop func()) {
	w.Helper()
	dir, err := filepath.EvalSymlinks(w.TempDir())
	require.NoError(w, err)
	host, err := volume.NewHost(w.Context(), dir, volume.WithNodeName("node-1"))
	require.NoError(w, err)
	kernel := mounttest.NewFake(mount.Config{})
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel, NoDeviceMount: true})
	plugins, err := volume.NewVolumePluginMgr(w.Context(), host, plugin)
	require.NoError(w, err)
	config := manager.Config{Plugins: plugins, Mounter: kernel, Pods: w.Source, Claims: w.Source}
	for _, f := range configure {
		f(&config)
	}
	m, err = manager.New(config)
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	newVolume = func(c *v1.PersistentVolumeClaim) *v1.PersistentVolume {
		disk := filepath.Join(dir, "disk-"+c.Spec.VolumeName)
		require.NoError(w, os.Mkdir(disk, 0o755))
		pv := plugin.NewSpec(c.Spec.VolumeName, disk).PersistentVolume
		like := volumeOf(c)
		pv.Spec.ClaimRef, pv.Spec.Capacity, pv.Spec.AccessModes = like.Spec.ClaimRef, like.Spec.Capacity, like.Spec.AccessModes
		return pv
	}
	return m, newVolume, func() {
		cancel()
		require.NoError(w, <-ended)
	}
}

// up returns the error of waiting for the volumes of a pod.
func (w *world) up(m *manager.Manager, p *v1.Pod) error {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	return m.WaitForAttachAndMount(ctx, w.known(p))
}

// TestManagerOnSource: volumes come up with the pods of the API server, stay through an outage, and go
// with the pods.
func TestManagerOnSource(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		m, newVolume, stop := w.runManager()
		defer stop()
		data := claim("data", "disk")
		web := pod("web", byClaim("data"))
		w.put(web)
		require.Error(t, w.up(m, web), "the claim is missing")
		w.put(data, newVolume(data))
		require.NoError(t, w.up(m, web))

		w.fail(errDown)
		time.Sleep(72 * time.Hour)
		require.Len(t, m.GetMountedVolumesForPod(w.uid("web")), 1)
		w.running["web"] = true
		w.remove(web)
		w.fail(nil)
		time.Sleep(time.Hour)
		require.Len(t, m.GetMountedVolumesForPod(w.uid("web")), 1, "the pod has containers")
		delete(w.running, "web")
		w.containersEnded("web")
		require.NoError(t, m.WaitForUnmount(w.Context(), w.known(web)))
	})
}

// TestForeignClaims: a pod gets neither the claim that another pod's ephemeral volume owns, nor the
// volume of another claim; other pods get theirs.
func TestForeignClaims(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		m, newVolume, stop := w.runManager()
		defer stop()
		ephemeral := v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}
		owner, thief := pod("owner", ephemeral), pod("thief", ephemeral)
		owned, stolen := claim("owner-v0", "owned"), claim("thief-v0", "stolen")
		isController := true
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "owner", UID: owner.UID, Controller: &isController}}
		stolen.OwnerReferences = owned.OwnerReferences
		data, copied := claim("data", "disk"), claim("copied", "disk")
		user, copier := pod("user", byClaim("data")), pod("copier", byClaim("copied"))
		w.put(owner, owned, stolen, data, copied, newVolume(owned), newVolume(stolen), newVolume(data), thief, user, copier)
		require.NoError(t, w.up(m, owner))
		require.NoError(t, w.up(m, user))
		err := w.up(m, thief)
		require.ErrorIs(t, err, manager.ErrNotBound)
		require.ErrorContains(t, err, "not created for this pod")
		err = w.up(m, copier)
		require.ErrorIs(t, err, manager.ErrNotBound)
		require.ErrorContains(t, err, "the volume is bound to ns/data")
	})
}

// TestExpansionOnSource: a volume grows on its node when the controller has grown its storage, not
// when the user asks for it, and the claim shows each step.
func TestExpansionOnSource(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		e := &expansions{world: w}
		e.startStatus(e.record)
		m, newVolume, stop := w.runManager(func(c *manager.Config) { c.ControllerExpands, c.Expansions = true, e.Report })
		defer stop()
		grows, class := true, "grows"
		w.put(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "example.com/p", AllowVolumeExpansion: &grows})
		data := claim("data", "disk")
		data.Spec.StorageClassName = &class
		web := pod("web", byClaim("data"))
		w.put(data)
		pv := newVolume(data)
		w.put(pv, web)
		require.NoError(t, w.up(m, web))

		data.Spec.Resources.Requests = storage("2Gi")
		w.put(data)
		time.Sleep(time.Hour)
		require.Equal(t, "1Gi", e.status(), "the storage has not grown")
		e.setStatus(func(s *v1.PersistentVolumeClaimStatus) {
			s.AllocatedResources = storage("2Gi")
			s.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: v1.PersistentVolumeClaimControllerResizeInProgress}
		})
		pv.Spec.Capacity = storage("2Gi")
		w.put(pv)
		time.Sleep(time.Hour)
		require.Equal(t, "1Gi ControllerResizeInProgress", e.status(), "the controller has not finished")
		e.setStatus(func(s *v1.PersistentVolumeClaimStatus) {
			s.AllocatedResourceStatuses[v1.ResourceStorage] = v1.PersistentVolumeClaimNodeResizePending
		})
		time.Sleep(time.Minute)
		require.Equal(t, "2Gi", e.status())
		require.Len(t, e.takeEvents(), 1)
	})
}
