package sidecar_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/controllers/modify"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/volume"
)

// TestTimeouts: ControllerExpandVolume and ControllerModifyVolume have the times of the configuration, which are shorter
// or longer than that of other calls.
func TestTimeouts(t *testing.T) {
	for _, c := range []struct {
		config                   sidecar.DriverConfig
		publish, expand, changes time.Duration
	}{
		{sidecar.DriverConfig{}, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		{sidecar.DriverConfig{Timeout: time.Minute}, time.Minute, time.Minute, time.Minute},
		{sidecar.DriverConfig{Timeout: time.Minute, ExpandTimeout: time.Hour, ModifyTimeout: time.Second}, time.Minute, time.Hour, time.Second},
		{sidecar.DriverConfig{ExpandTimeout: time.Second, ModifyTimeout: time.Hour}, 2 * time.Minute, time.Second, time.Hour},
	} {
		inWorld(t, all, func(w *world) {
			config := c.config
			config.Conn = w.driver.Conn()
			d, err := sidecar.Open(w.Context(), config)
			require.NoError(w, err)
			defer func() { require.NoError(w, d.Close()) }()
			pv := newVolume(nil)
			expander, err := sidecar.NewExpander(d, w.cluster, "")
			require.NoError(w, err)
			modifier, err := sidecar.NewModifier(d, w.cluster, false)
			require.NoError(w, err)
			attacher, err := sidecar.NewAttacher(d, w.cluster, "")
			require.NoError(w, err)
			w.requireHangs(csitest.ControllerPublishVolume, c.publish, func() error {
				_, err := attacher.Attach(w.Context(), attachment.Request{Volume: pv, Node: "a", NodeID: "id-a"})
				return err
			})
			w.requireHangs(csitest.ControllerExpandVolume, c.expand, func() error {
				_, err := expander.Expand(w.Context(), volume.ExpandRequest{Spec: volume.NewSpecFromPersistentVolume(pv, false), NewSize: resource.MustParse("2Gi")})
				return err
			})
			w.requireHangs(csitest.ControllerModifyVolume, c.changes, func() error {
				return modifier.Modify(w.Context(), modify.Request{Volume: pv, Parameters: map[string]string{"iops": "9"}})
			})
		})
	}
}

// TestRunPeriods: Run waits for an expansion and a modification for the times of the configuration, and lists the volumes
// of the driver in its period.
func TestRunPeriods(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.config.Timeout, w.config.ExpandTimeout, w.config.ModifyTimeout, w.config.ListEvery = time.Second, 10*time.Minute, 10*time.Minute, 10*time.Second
		for _, method := range []csitest.Method{csitest.ControllerExpandVolume, csitest.ControllerModifyVolume} {
			w.driver.Inject(csitest.Fault{Method: method, Delay: 5 * time.Minute, Times: 1})
		}
		w.runOthers()
		w.run()
		w.createClass(nil, nil)
		w.createNode("a", "north")
		create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("data"))
		time.Sleep(time.Minute)
		w.volumeOf("data")
		require.InDelta(w, 6, len(w.texts(csitest.ListVolumes)), 1)
		w.expand("data", "3Gi")
		time.Sleep(6 * time.Minute)
		capacity := w.claim("data").Status.Capacity[v1.ResourceStorage]
		require.Equal(w, "3Gi", capacity.String(), "%s", w.eventTexts())
		require.Len(w, w.texts(csitest.ControllerExpandVolume), 1)

		gold := "gold"
		create(w, w.cluster.VolumeAttributesClasses(), &storagev1beta1.VolumeAttributesClass{
			ObjectMeta: metav1.ObjectMeta{Name: gold}, DriverName: driverName, Parameters: map[string]string{"iops": "9"},
		})
		claim := w.claim("data")
		claim.Spec.VolumeAttributesClassName = &gold
		_, err := w.cluster.PersistentVolumeClaims(namespace).Update(w.Context(), claim, metav1.UpdateOptions{})
		require.NoError(w, err)
		time.Sleep(6 * time.Minute)
		require.Equal(w, &gold, w.claim("data").Status.CurrentVolumeAttributesClassName, "%s", w.eventTexts())
		require.Len(w, w.texts(csitest.ControllerModifyVolume), 1)
	})
}

// requireHangs requires the duration of a call that the driver does not answer.
func (w *world) requireHangs(method csitest.Method, duration time.Duration, call func() error) {
	w.Helper()
	w.driver.Inject(csitest.Fault{Method: method, Hang: true, Times: 1})
	began := time.Now()
	require.Error(w, call(), method)
	require.Equal(w, duration, time.Since(began), method)
}
