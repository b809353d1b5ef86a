package bind_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/metricstest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A limitedPlugin deletes and names the volumes that it supports.
type limitedPlugin struct {
	volume.VolumePlugin // nil
	name                string
	supports            func(*v1.PersistentVolume) bool
	deletes             func(volume string) error // nil: does not delete
}

func (p limitedPlugin) Init(context.Context, volume.VolumeHost) error { return nil }
func (p limitedPlugin) GetPluginName() string                         { return p.name }
func (p limitedPlugin) CanSupport(spec *volume.Spec) bool {
	return spec.PersistentVolume != nil && p.supports(spec.PersistentVolume)
}

func (p limitedPlugin) NewDeleter(spec *volume.Spec) (volume.Deleter, error) {
	return deletion(func() error { return p.deletes(spec.PersistentVolume.Name) }), nil
}

type deletion func() error

func (d deletion) Delete(context.Context) error { return d() }

func (w *world) usePlugin(plugin volume.VolumePlugin) {
	w.Helper()
	host, err := volume.NewHost(w.Context(), w.TempDir())
	require.NoError(w, err)
	w.config.Plugins, err = volume.NewVolumePluginMgr(w.Context(), host, plugin)
	require.NoError(w, err)
}

// TestPluginThatOnlyDeletes: the storage of released volumes is deleted, each failure is counted, and no claim
// is provisioned for.
func TestPluginThatOnlyDeletes(t *testing.T) {
	inWorld(t, func(w *world) {
		metrics := metricstest.New(t)
		var deleted []string
		w.config.Metrics = metrics
		w.usePlugin(limitedPlugin{
			name: pluginName, supports: func(pv *v1.PersistentVolume) bool { return pv.Spec.NFS != nil },
			deletes: func(name string) error {
				if deleted = append(deleted, name); len(deleted) == 1 {
					return errors.New("disk is broken")
				}
				return nil
			},
		})
		pv := newVolume("pv", "1Gi")
		pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
		w.createVolume(pv)
		w.createClaim(newClaim("a", "1Gi"))
		class := newClass("fast", pluginName)
		w.createClass(class)
		unserved := newClaim("unserved", "1Gi")
		unserved.Spec.StorageClassName = &class.Name
		w.createClaim(unserved)
		w.start()
		w.wait(time.Minute)
		require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
		require.Equal(w, v1.ClaimPending, w.claim("unserved").Status.Phase)
		require.NotContains(w, w.claim("unserved").Annotations, provision.ProvisionerAnnotation)
		w.deleteClaim("a")
		w.wait(time.Minute)
		w.unprotectVolumes()
		w.wait(time.Minute)
		require.Equal(w, []string{"pv", "pv"}, deleted)
		require.Equal(w, 1, metrics.Take()[bind.OperationErrorsTotal+" plugin_name="+pluginName+" operation_name=delete"])
	})
}

// TestLabelOfCSI: the gauge of volumes names the driver of a CSI volume.
func TestLabelOfCSI(t *testing.T) {
	inWorld(t, func(w *world) {
		w.usePlugin(limitedPlugin{name: "kubernetes.io/csi", supports: func(pv *v1.PersistentVolume) bool { return pv.Spec.CSI != nil }})
		pv := newVolume("pv", "1Gi")
		pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "1"}}
		w.createVolume(pv)
		w.config.Cluster = w.server.Connect("binder")
		controller, err := bind.New(w.config)
		require.NoError(w, err)
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx) }()
		w.wait(time.Minute)
		metrics := metricstest.New(t)
		controller.Gauges(metrics.Gauge)
		require.Equal(w, 1, metrics.Take()[bind.TotalVolumes+" plugin_name=kubernetes.io/csi:csi.example.com volume_mode=Filesystem"])
		cancel()
		require.NoError(w, <-ended)
	})
}

// TestCountedDefaultClass: each write of the default class is counted, and a refused one as a failure.
func TestCountedDefaultClass(t *testing.T) {
	inWorld(t, func(w *world) {
		metrics := metricstest.New(t)
		w.config.Metrics = metrics
		bare := newClaim("bare", "1Gi")
		bare.Spec.StorageClassName = nil
		w.createClaim(bare)
		class := newClass("late", "example.com/p")
		class.Annotations = map[string]string{"storageclass.beta.kubernetes.io/is-default-class": "true"}
		w.createClass(class)
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Name: "bare"}, Failure: apitest.Refused, Times: 1})
		w.start()
		w.wait(time.Minute)
		require.Equal(w, "late", *w.claim("bare").Spec.StorageClassName)
		counted := metrics.Take()
		require.Equal(w, 2, counted[bind.RetroactiveClassTotal])
		require.Equal(w, 1, counted[bind.RetroactiveClassErrorsTotal])
	})
}

// TestAnotherVolumeThanTheRivals: a claim does not wait for the smallest volume while a claim that has been
// bound to it keeps it, and another volume fits.
func TestAnotherVolumeThanTheRivals(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("small", "1Gi"))
		w.createClaim(newClaim("a", "1Gi"))
		end := w.start()
		w.wait(time.Minute)
		end()
		w.updateVolume("small", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
		small := w.volume("small")
		small.Status.Phase = v1.VolumeAvailable
		_, err := w.cluster.PersistentVolumes().UpdateStatus(w.Context(), small, metav1.UpdateOptions{})
		require.NoError(w, err)
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Name: "small"}, Failure: apitest.Refused})
		w.createVolume(newVolume("large", "2Gi"))
		w.createClaim(newClaim("b", "1Gi"))
		w.start()
		w.wait(time.Minute)
		require.Equal(w, "Bound large <- Bound b", w.state("b", "large"))
	})
}

// TestRejectedVolumeWakesNoClaim: claims that wait for the volume of a rival do not wake each other with it
// for ever, and one of them receives it as soon as the rival ends.
func TestRejectedVolumeWakesNoClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("small", "1Gi"))
		w.createClaim(newClaim("a", "1Gi"))
		end := w.start()
		w.wait(time.Minute)
		end()
		w.updateVolume("small", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
		small := w.volume("small")
		small.Status.Phase = v1.VolumeAvailable
		_, err := w.cluster.PersistentVolumes().UpdateStatus(w.Context(), small, metav1.UpdateOptions{})
		require.NoError(w, err)
		heal := w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Name: "small"}, Failure: apitest.Refused})
		w.createClaim(newClaim("b", "1Gi"))
		w.createClaim(newClaim("c", "1Gi"))
		w.start()
		w.wait(time.Minute)
		w.updateVolume("small", func(pv *v1.PersistentVolume) { pv.Labels = map[string]string{"is": "offered"} })
		w.wait(time.Minute)
		w.deleteClaim("a")
		heal()
		w.wait(time.Minute)
		bound := []v1.PersistentVolumeClaimPhase{w.claim("b").Status.Phase, w.claim("c").Status.Phase}
		require.ElementsMatch(w, []v1.PersistentVolumeClaimPhase{v1.ClaimBound, v1.ClaimPending}, bound)
	})
}
