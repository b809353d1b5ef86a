package sidecar_test

import (
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/csi/csitest"
)

// withoutSources is a driver that answers CreateVolume without the content source.
var withoutSources = csitest.Fault{Method: csitest.CreateVolume, Answer: func(answer proto.Message) {
	answer.(*csipb.CreateVolumeResponse).Volume.ContentSource = nil
}}

// createCopy creates the claims source and copy, and returns the volume of the second one.
func (w *world) createCopy() *v1.PersistentVolume {
	w.createNode("a", "north")
	w.createClass(nil, nil)
	create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("source"))
	w.settle()
	claim := newClaim("copy")
	fromClaim("source")(claim)
	create(w, w.cluster.PersistentVolumeClaims(namespace), claim)
	w.settle()
	w.settle()
	return w.volumeOf("copy")
}

// mark changes a claim as its tenant can.
func (w *world) mark(claim, metadata string) {
	_, err := w.cluster.PersistentVolumeClaims(namespace).Patch(w.Context(), claim, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+provision.DiscardAnnotation+`":"ended x"}`+metadata+`}}`), metav1.PatchOptions{})
	require.NoError(w, err)
}

// TestBoundCopyStays: a tenant marks a bound copy, whose driver omits the content source in a repeated answer. The
// volume stays, also if it is attached to no node.
func TestBoundCopyStays(t *testing.T) {
	for name, metadata := range map[string]string{"mark": "", "mark and finalizer": `,"finalizers":["` + provision.ClaimFinalizer + `"]`} {
		for _, isAttached := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, all, func(w *world) {
					w.runOthers()
					w.run()
					pv := w.createCopy()
					if isAttached {
						w.attach(pv, "a")
					}
					time.Sleep(2 * time.Minute)
					w.driver.Inject(withoutSources)
					w.driver.ResetCalls()
					w.mark("copy", metadata)
					time.Sleep(10 * time.Minute)
					require.Empty(w, w.texts(csitest.DeleteVolume))
					require.Equal(w, metadata != "", len(w.texts(csitest.CreateVolume)) > 0)
					require.Len(w, w.driver.Volumes(), 2)
					require.Equal(w, pv.Name, w.volumeOf("copy").Name)
					require.Equal(w, v1.VolumeBound, w.volumeOf("copy").Status.Phase)
				})
			})
		}
	}
}

// TestLargeVolumeIsDiscarded: a volume whose context no API server stores is deleted, and a large one is stored.
func TestLargeVolumeIsDiscarded(t *testing.T) {
	for size, isStored := range map[int]bool{200 << 10: true, 300 << 10: false, 2 << 20: false, 7 << 19: false} {
		inWorld(t, all, func(w *world) {
			w.runOthers()
			w.run()
			w.createClass(nil, nil)
			w.driver.Inject(csitest.Fault{Method: csitest.CreateVolume, Answer: func(answer proto.Message) {
				answer.(*csipb.CreateVolumeResponse).Volume.VolumeContext = map[string]string{"k": strings.Repeat("x", size)}
			}})
			create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("c"))
			time.Sleep(time.Minute)
			require.Equal(w, isStored, len(w.driver.Volumes()) == 1, w.eventTexts())
			require.Equal(w, isStored, w.claim("c").Status.Phase == v1.ClaimBound)
			require.NotEqual(w, isStored, strings.Contains(w.eventTexts(), "describes the volume by"))
			require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "c", metav1.DeleteOptions{}))
			time.Sleep(time.Hour)
			require.Empty(w, w.driver.Volumes())
		})
	}
}

// TestEmptyCopyIsDiscarded: the controller deletes an empty volume in place of a copy, also if a call fails.
func TestEmptyCopyIsDiscarded(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.runOthers()
		w.run()
		w.createNode("a", "north")
		w.createClass(nil, nil)
		create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("source"))
		w.settle()
		w.driver.Inject(withoutSources)
		w.driver.Inject(csitest.Fault{Method: csitest.DeleteVolume, Code: codes.Internal, Times: 1})
		claim := newClaim("copy")
		fromClaim("source")(claim)
		create(w, w.cluster.PersistentVolumeClaims(namespace), claim)
		time.Sleep(time.Minute)
		require.Len(w, w.driver.Volumes(), 1)
		require.Contains(w, w.eventTexts(), "an empty volume in place of a copy")
		require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "copy", metav1.DeleteOptions{}))
		time.Sleep(time.Hour)
		require.Len(w, w.driver.Volumes(), 1)
	})
}
