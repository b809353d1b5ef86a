package sidecar_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestOneCallForAVolume: two nodes and an expansion of one volume wait for each other, and a call that waits
// until its context ends was not made.
func TestOneCallForAVolume(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.addVolume(nil)
		w.driver.Inject(csitest.Fault{Volume: "v", Delay: time.Second})
		pv := newVolume(func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany} })
		d := w.open()
		a, err := sidecar.NewAttacher(d, w.cluster, "")
		require.NoError(w, err)
		e, err := sidecar.NewExpander(d, w.cluster, "")
		require.NoError(w, err)
		for range 4 { // more calls wait in total than may wait at a time
			var calls sync.WaitGroup
			for _, id := range []string{"id-a", "id-b"} {
				calls.Go(func() {
					_, err := a.Attach(w.Context(), attachment.Request{Volume: pv, NodeID: id})
					require.NoError(w, err)
				})
			}
			calls.Go(func() {
				_, err := e.Expand(w.Context(), volume.ExpandRequest{Spec: volume.NewSpecFromPersistentVolume(pv, false), NewSize: resource.MustParse("2Gi")})
				require.NoError(w, err)
			})
			time.Sleep(time.Millisecond)
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			require.ErrorIs(w, a.Detach(ctx, attachment.Request{Volume: pv, NodeID: "id-c"}), volume.ErrTransient)
			cancel()
			calls.Wait()
		}
		require.Empty(w, w.driver.Violations())
		require.Empty(w, w.texts(csitest.ControllerUnpublishVolume))
	})
}

// TestHungVolume: a driver that hangs for a volume of more nodes than there are workers attaches another volume at once.
// Afterwards all nodes receive the first one.
func TestHungVolume(t *testing.T) {
	inWorld(t, all, func(w *world) {
		const nodes = 12
		w.config.Workers = 8
		w.run()
		for i := range nodes {
			w.createNode(fmt.Sprint("n", i), "north")
		}
		w.createBound("one", "1Gi", func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany} })
		w.createBound("two", "1Gi", nil)
		volumes := map[string]*v1.PersistentVolume{}
		for _, name := range []string{"pv-one", "pv-two"} {
			pv, err := w.cluster.PersistentVolumes().Get(w.Context(), name, metav1.GetOptions{})
			require.NoError(w, err)
			volumes[name] = pv
		}
		w.driver.Inject(csitest.Fault{Method: csitest.ControllerPublishVolume, Volume: "handle-one", Hang: true})
		var waiting []string
		for i := range nodes {
			waiting = append(waiting, w.attach(volumes["pv-one"], fmt.Sprint("n", i)).Name)
		}
		w.settle()
		isAttached := func(name string) bool {
			found, err := w.attachment(name)
			require.NoError(w, err)
			return found.Status.Attached
		}
		two := w.attach(volumes["pv-two"], "n0").Name
		w.settle()
		require.True(w, isAttached(two))
		w.driver.ClearFaults()
		time.Sleep(10 * time.Minute)
		for _, name := range waiting {
			require.True(w, isAttached(name))
		}
		require.Empty(w, w.driver.Violations())
	})
}

// TestInvalidMaxWaiting: a negative number is refused by name before the driver is called.
func TestInvalidMaxWaiting(t *testing.T) {
	_, err := sidecar.Open(t.Context(), sidecar.DriverConfig{MaxWaiting: -1})
	require.EqualError(t, err, "sidecar: DriverConfig.MaxWaiting: Invalid value: -1: must be at least 0")
	require.ErrorAs(t, err, new(*field.Error))
}
