package expand_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	patchClaim  = "patch persistentvolumeclaims/status default/data"
	patchVolume = "patch persistentvolumes disk"
)

// TestExpand: storage without a node's part grows by three writes.
func TestExpand(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addPair()
		w.start()
		require.Empty(t, w.Took(), "a claim that is large enough")
		w.request("2Gi")
		w.Wait(time.Second)
		require.Equal(t, "capacity 2Gi, volume 2Gi, node-expansion-not-required=true", w.state())
		require.Equal(t, []string{"1Gi to 2Gi"}, w.asked())
		require.Equal(t, []string{patchClaim, patchVolume, patchClaim}, w.Took())
		require.Equal(t, driver, w.claim().Annotations[expand.ResizerAnnotation])
		require.Equal(t, []string{
			"Normal Resizing: resizing volume disk to 2Gi", "Normal VolumeResizeSuccessful: resized volume disk",
		}, w.Announced())
		w.Wait(24 * time.Hour)
		require.Empty(t, w.Took(), "an idle controller")
	})
}

// TestDeniedPatch: a claim whose expansion may not be written has an event, once.
func TestDeniedPatch(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addPair()
		w.start()
		allow := w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Resource: "persistentvolumes"}, Failure: apitest.Forbidden})
		w.request("2Gi")
		w.Wait(time.Hour)
		announced := strings.Join(w.Announced(), "\n")
		require.Equal(t, 1, strings.Count(announced, "RequestDenied"))
		require.Contains(t, announced, `cannot patch resource "persistentvolumes"`)
		allow()
		w.Wait(time.Hour)
		require.Equal(t, "capacity 2Gi, volume 2Gi, node-expansion-not-required=true", w.state())
	})
}

// TestExpandOnNode: a node finishes, and the annotation of the volume is removed.
func TestExpandOnNode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.onNode = true
		w.addPair()
		w.start()
		w.request("2Gi")
		w.Wait(time.Second)
		require.Equal(t, "capacity 1Gi, volume 2Gi, NodeResizePending 2Gi, FileSystemResizePending=True, Resizing=True, pre-resize-capacity=1Gi", w.state())
		require.Equal(t, []string{patchClaim, patchVolume, patchClaim}, w.Took())
		require.Equal(t, []string{
			"Normal Resizing: resizing volume disk to 2Gi",
			"Normal FileSystemResizeRequired: the file system of the volume has to grow on the node",
		}, w.Announced())
		w.request("4Gi")
		w.Wait(time.Hour)
		require.Empty(t, w.Took(), "the node finishes first")
		w.finishOnNode()
		w.Wait(time.Second)
		require.Equal(t, "capacity 2Gi, volume 4Gi, NodeResizePending 4Gi, FileSystemResizePending=True, Resizing=True, pre-resize-capacity=2Gi", w.state())
		w.finishOnNode()
		w.Wait(time.Second)
		require.Equal(t, "capacity 4Gi, volume 4Gi", w.state())
		require.Equal(t, []string{"1Gi to 2Gi", "2Gi to 4Gi"}, w.asked())
	})
}

// TestLargerResult: the size that the storage has counts.
func TestLargerResult(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.extra = "1Gi"
		w.addPair()
		w.start()
		w.request("2Gi")
		w.Wait(time.Second)
		require.Equal(t, "capacity 3Gi, volume 3Gi, node-expansion-not-required=true", w.state())
	})
}

// TestSmallerResult: a result below the request is an open outcome, and no status shows it.
func TestSmallerResult(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.extra = "-512Mi"
		w.addPair()
		w.start()
		w.request("2Gi")
		w.Wait(100 * time.Millisecond)
		require.Equal(t, "capacity 1Gi, volume 1Gi, ControllerResizeInProgress 2Gi, Resizing=True", w.state())
		require.Contains(t, w.Announced()[1], "the expanded volume has 1536Mi, less than 2Gi")
	})
}

// TestInfeasible: an infeasible size is tried rarely, and the user may reduce the request.
func TestInfeasible(t *testing.T) {
	tooLarge := fmt.Errorf("no disk has this size: %w", volume.ErrInfeasible)
	inWorld(t, func(w *world) {
		w.storage.failures = []error{tooLarge, tooLarge, tooLarge}
		w.addPair()
		w.start()
		w.request("100Ti")
		w.Wait(4 * time.Minute)
		const refused = "capacity 1Gi, volume 1Gi, ControllerResizeInfeasible 100Ti, ControllerResizeError=True, Resizing=True"
		require.Equal(t, refused, w.state())
		require.Equal(t, []string{"1Gi to 100Ti"}, w.asked())
		require.Equal(t, []string{patchClaim, patchClaim}, w.Took())
		w.Wait(2 * time.Minute)
		require.Equal(t, []string{"1Gi to 100Ti"}, w.asked(), "after RetryInfeasible")
		require.Equal(t, []string{patchClaim, patchClaim}, w.Took(), "the state of an open outcome, and of its end")
		require.Equal(t, []string{
			"Normal Resizing: resizing volume disk to 100Ti",
			"Warning VolumeResizeFailed: " + driver + " failed to resize the volume: no disk has this size: infeasible",
		}, w.Announced())
		w.request("50Ti")
		w.Wait(time.Second)
		require.Equal(t, []string{"1Gi to 50Ti"}, w.asked(), "another request")
		w.request("2Gi")
		w.Wait(time.Second)
		require.Equal(t, "capacity 2Gi, volume 2Gi, node-expansion-not-required=true", w.state())
	})
}

// TestOpenOutcome: an expansion with an open outcome is repeated with its size; then comes the reduced
// request.
func TestOpenOutcome(t *testing.T) {
	inWorld(t, func(w *world) {
		lost := volume.AsUncertain(errors.New("connection lost"))
		w.storage.failures = []error{lost, lost, lost}
		w.storage.hasEffect = true
		w.addPair()
		w.start()
		w.request("8Gi")
		w.Wait(100 * time.Millisecond)
		w.request("2Gi")
		w.Wait(time.Minute)
		require.Equal(t, []string{"1Gi to 8Gi", "1Gi to 8Gi", "1Gi to 8Gi", "1Gi to 8Gi"}, w.asked())
		require.Equal(t, "capacity 8Gi, volume 8Gi, node-expansion-not-required=true", w.state())
	})
}

// TestFinalFailure: after a final error the reduced request is tried.
func TestFinalFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{errors.New("disk is broken")}
		w.addPair()
		w.start()
		w.request("8Gi")
		w.Wait(100 * time.Millisecond)
		require.Equal(t, "capacity 1Gi, volume 1Gi, ControllerResizeInProgress 8Gi, ControllerResizeError=True, Resizing=True", w.state())
		w.request("2Gi")
		w.Wait(time.Second)
		require.Equal(t, []string{"1Gi to 8Gi", "1Gi to 2Gi"}, w.asked())
		require.Equal(t, "capacity 2Gi, volume 2Gi, node-expansion-not-required=true", w.state())
	})
}

// TestTransientAfterOpen: a call that changes nothing says nothing of an earlier one.
func TestTransientAfterOpen(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{volume.AsUncertain(errors.New("connection lost")), volume.AsTransient(errors.New("no driver"))}
		w.addPair()
		w.start()
		w.request("8Gi")
		w.Wait(10 * time.Millisecond)
		w.request("2Gi")
		w.Wait(time.Minute)
		require.Equal(t, []string{"1Gi to 8Gi", "1Gi to 8Gi", "1Gi to 8Gi"}, w.asked())
	})
}

// TestNodeGaveUp: a node that has given up is asked again after a pause, or for another request.
func TestNodeGaveUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startGivenUp()
		w.Wait(6 * time.Minute)
		require.Equal(t, []string{"1Gi to 2Gi"}, w.asked(), "after the pause")
		require.Contains(t, w.state(), "NodeResizePending 2Gi")
		w.giveUpOnNode()
		w.request("4Gi")
		w.Wait(time.Second)
		require.Contains(t, w.state(), "volume 4Gi, NodeResizePending 4Gi")
	})
}

// TestNodeGaveUpUnseen: a node gives up twice, and the cache shows one state: that of the controller between the two
// comes and goes during a gap of the watch.
func TestNodeGaveUpUnseen(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startGivenUp()
		end := w.Gap("persistentvolumeclaims")
		w.Wait(6 * time.Minute)
		require.Equal(t, []string{"1Gi to 2Gi"}, w.asked())
		w.giveUpOnNode()
		end()
		w.Wait(20 * time.Minute)
		require.Equal(t, []string{"1Gi to 2Gi"}, w.asked())
	})
}

// startGivenUp starts a controller that grows a volume, whose node gives up.
func (w *world) startGivenUp() {
	w.Helper()
	w.storage.onNode = true
	w.addPair()
	w.start()
	w.request("2Gi")
	w.Wait(time.Second)
	w.giveUpOnNode()
	require.Equal(w, []string{"1Gi to 2Gi"}, w.asked())
}

// giveUpOnNode ends an expansion that the node can never finish.
func (w *world) giveUpOnNode() {
	w.Helper()
	w.setStatus(func(status *v1.PersistentVolumeClaimStatus) {
		status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizeInfeasible}
	})
	w.Wait(time.Second)
}

// TestCrashAtEachCall: a controller that ends before or after any of its writes is continued by the next.
func TestCrashAtEachCall(t *testing.T) {
	for _, onNode := range []bool{false, true} {
		for at := range 3 {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprint("on a node ", onNode, ", write ", at, ", late ", late), func(t *testing.T) {
					inWorld(t, func(w *world) { crashAtCall(w, at, late, onNode) })
				})
			}
		}
	}
}

func crashAtCall(w *world, at int, late, onNode bool) {
	w.storage.onNode = onNode
	w.addPair()
	w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Skip: at, Times: 1, Crash: true, AfterEffect: late})
	end := w.start()
	w.request("2Gi")
	w.Wait(time.Minute)
	end()
	w.start()
	w.Wait(time.Minute)
	if onNode {
		require.Equal(w, "capacity 1Gi, volume 2Gi, NodeResizePending 2Gi, FileSystemResizePending=True, Resizing=True, pre-resize-capacity=1Gi", w.state())
		w.finishOnNode()
		w.Wait(time.Minute)
		require.Equal(w, "capacity 2Gi, volume 2Gi", w.state())
		return
	}
	require.Equal(w, "capacity 2Gi, volume 2Gi, node-expansion-not-required=true", w.state())
}

// TestGivenUpSize: a controller whose cache is old does not try a refused size that was given up meanwhile.
func TestGivenUpSize(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{fmt.Errorf("too large: %w", volume.ErrInfeasible)}
		w.addPair()
		w.start()
		w.request("8Gi")
		w.Wait(time.Second)
		w.asked()
		w.Server.HoldEvents(identity)
		w.request("2Gi")
		w.Wait(6 * time.Minute)
		require.Equal(t, []string{"1Gi to 2Gi"}, w.asked())
	})
}

// TestExternal: a volume of another program has an event, and no write.
func TestExternal(t *testing.T) {
	for _, report := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.config.ReportExternal = report
			w.addPair()
			w.storage.isForeign = true
			w.start()
			w.request("2Gi")
			w.Wait(time.Minute)
			require.Empty(t, w.Took())
			var want []string
			if report {
				want = []string{"Normal ExternalExpanding: waiting for an external controller to expand this claim"}
			}
			require.Equal(t, want, w.Announced())
		})
	}
}

// TestTimeout: a call that lasts too long has an open outcome, also after one that has changed nothing.
func TestTimeout(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Timeout = time.Second
		w.storage.failures = []error{errors.New("disk is broken")}
		w.addPair()
		w.start()
		w.request("8Gi")
		w.Wait(100 * time.Millisecond)
		w.asked()
		w.storage.setDelay(time.Minute)
		w.Wait(2 * time.Second)
		w.storage.setDelay(0)
		w.request("2Gi")
		w.Wait(time.Minute)
		require.Equal(t, []string{"1Gi to 8Gi"}, w.asked())
		require.Equal(t, "capacity 8Gi, volume 8Gi, node-expansion-not-required=true", w.state())
	})
}

// TestOldCache: a controller whose cache is old does not repeat a size that another controller has given up
// since.
func TestOldCache(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{errors.New("disk is broken")}
		w.addPair()
		w.start()
		w.request("8Gi")
		w.Wait(100 * time.Millisecond)
		require.Equal(t, []string{"1Gi to 8Gi"}, w.asked())
		w.Server.HoldEvents(identity)
		w.request("2Gi")
		w.setStatus(func(status *v1.PersistentVolumeClaimStatus) {
			status.AllocatedResources = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
		})
		w.Wait(time.Minute)
		require.Equal(t, []string{"1Gi to 2Gi"}, w.asked())
	})
}

// TestVolumeIsChanged: a capacity that another program has written during a call does not become smaller.
func TestVolumeIsChanged(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.setDelay(time.Second)
		w.addPair()
		w.start()
		w.request("2Gi")
		w.Wait(500 * time.Millisecond)
		pv := w.volume()
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("4Gi")}
		_, err := w.Cluster.PersistentVolumes().Update(t.Context(), pv, metav1.UpdateOptions{})
		require.NoError(t, err)
		w.Server.HoldEvents(identity)
		w.Wait(600 * time.Millisecond)
		require.Equal(t, "capacity 1Gi, volume 4Gi, ControllerResizeInProgress 2Gi, Resizing=True", w.state())
		w.Wait(time.Minute)
		require.Equal(t, "capacity 2Gi, volume 4Gi, node-expansion-not-required=true", w.state())
	})
}

// TestLateMark: the cache shows the annotation of a volume after the end of the growth. The annotation is removed.
func TestLateMark(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addPair()
		w.start()
		w.Server.InjectEvents(apitest.EventFault{Resource: "persistentvolumes", Delay: time.Minute})
		pv := w.volume()
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
		pv.Annotations = map[string]string{expand.CapacityBeforeAnnotation: "1Gi"}
		_, err := w.Cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
		require.NoError(w, err)
		w.request("2Gi")
		w.finishOnNode()
		w.Wait(2 * time.Minute)
		require.NotContains(w, w.volume().Annotations, expand.CapacityBeforeAnnotation)
	})
}

// TestForgottenAttempt: a claim ends during a call. The controller forgets it after the call.
func TestForgottenAttempt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addPair()
		w.storage.setDelay(time.Minute)
		var controller *expand.Controller
		w.Start(time.Millisecond, func(ctx context.Context, cluster *apitest.Cluster) (err error) {
			config := w.config
			config.Cluster = cluster
			controller, err = expand.New(config)
			return simtest.Run(controller, err)(ctx)
		})
		w.request("2Gi")
		w.Wait(10 * time.Second)
		w.EndClaim(namespace, "data")
		w.Wait(time.Hour)
		require.Zero(w, controller.Remembered())
	})
}

// TestPanic: a panic of the Expander counts as an uncertain error of one claim, also after a call that has changed nothing.
func TestPanic(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{errors.New("disk is broken"), nil}
		w.config.Expander = &panicking{storage: w.storage, call: 2}
		w.addPair()
		w.start()
		w.request("8Gi")
		w.Wait(600 * time.Millisecond)
		require.Equal(t, []string{"1Gi to 8Gi", "1Gi to 8Gi"}, w.asked())
		require.Contains(t, w.Announced(), "Warning VolumeResizeFailed: "+driver+" failed to resize the volume: panic: a bug")
		w.request("2Gi")
		w.Wait(time.Minute)
		require.Equal(t, []string{"1Gi to 8Gi"}, w.asked(), "the outcome is open")
		require.Equal(t, "capacity 8Gi, volume 8Gi, node-expansion-not-required=true", w.state())
	})
}

// A panicking storage panics after the effect of one call.
type panicking struct {
	*storage
	call int // counted down
}

func (p *panicking) Expand(ctx context.Context, req volume.ExpandRequest) (volume.ExpandResult, error) {
	result, err := p.storage.Expand(ctx, req)
	if p.call--; p.call == 0 {
		panic("a bug")
	}
	return result, err
}

// TestBadConfig: an invalid configuration names the field.
func TestBadConfig(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	valid := expand.Config{Cluster: server.Direct(), Expander: &storage{sizes: map[string]resource.Quantity{}}}
	for name, change := range map[string]func(*expand.Config){
		"Config.Cluster":         func(c *expand.Config) { c.Cluster = nil },
		"Config.Expander":        func(c *expand.Config) { c.Expander = nil },
		"Config.Workers":         func(c *expand.Config) { c.Workers = -1 },
		"Config.Timeout":         func(c *expand.Config) { c.Timeout = -1 },
		"Config.Backoff":         func(c *expand.Config) { c.Backoff = -1 },
		"Config.MaxBackoff":      func(c *expand.Config) { c.MaxBackoff = -1 },
		"Config.RetryInfeasible": func(c *expand.Config) { c.RetryInfeasible = -1 },
	} {
		config := valid
		change(&config)
		_, err := expand.New(config)
		var bad *field.Error
		require.ErrorAs(t, err, &bad)
		require.Equal(t, name, bad.Field)
	}
	_, err := expand.New(valid)
	require.NoError(t, err)
}
