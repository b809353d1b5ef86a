package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An expansions is a ClaimStatus in a world, with its events.
type expansions struct {
	*node.ClaimStatus
	*world
	mu     sync.Mutex
	events []string
}

// withStatus runs test with a pod of a claim of 1Gi, which is to grow to 2Gi, and a ClaimStatus.
func withStatus(t *testing.T, test func(*expansions)) {
	inWorld(t, func(w *world) {
		e := &expansions{world: w}
		data := claim("data", "disk")
		w.put(data, volumeOf(data), pod("a", byClaim("data")))
		w.start()
		e.startStatus(e.record)
		e.expand("2Gi", "2Gi", v1.PersistentVolumeClaimNodeResizePending)
		w.takeCalls()
		test(e)
	})
}

// startStatus runs a ClaimStatus until the world stops. events receives its events.
func (e *expansions) startStatus(events func(api.Event)) {
	e.Helper()
	var err error
	e.ClaimStatus, err = node.NewClaimStatus(node.ClaimStatusConfig{Source: e.Source, Events: events})
	require.NoError(e, err)
	ctx, cancel := context.WithCancel(e.Context())
	e.ended.Go(func() { require.NoError(e, e.ClaimStatus.Run(ctx)) })
	stop := e.cancelThis
	e.cancelThis = func() { cancel(); stop() }
}

func (e *expansions) record(event api.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	object := event.Object.(*v1.PersistentVolumeClaim)
	e.events = append(e.events, fmt.Sprintf("%s %s %s/%s %s", event.Type, event.Reason, object.Namespace, object.Name, event.Message))
}

func (e *expansions) takeEvents() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	events := e.events
	e.events = nil
	return events
}

// expand changes the claim as the controller does: the volume has the capacity, and the claim the
// state and an allocated size.
func (e *expansions) expand(capacity, allocated string, state v1.ClaimResourceStatus) {
	e.Helper()
	data := claim("data", "disk")
	pv := volumeOf(data)
	pv.Spec.Capacity = storage(capacity)
	e.put(pv)
	e.setStatus(func(s *v1.PersistentVolumeClaimStatus) {
		s.AllocatedResources = storage(allocated)
		s.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: state}
		s.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue}}
	})
}

// setStatus changes the status of the claim as another program does.
func (e *expansions) setStatus(change func(*v1.PersistentVolumeClaimStatus)) {
	e.Helper()
	stored := e.stored()
	change(&stored.Status)
	_, err := e.server.Direct().PersistentVolumeClaims("ns").UpdateStatus(e.Context(), stored, metav1.UpdateOptions{})
	require.NoError(e, err)
	synctest.Wait()
}

func (e *expansions) stored() *v1.PersistentVolumeClaim {
	e.Helper()
	synctest.Wait()
	stored, err := e.server.Direct().PersistentVolumeClaims("ns").Get(e.Context(), "data", metav1.GetOptions{})
	require.NoError(e, err)
	return stored
}

// status returns the capacity, the state and the conditions of the claim.
func (e *expansions) status() string {
	e.Helper()
	stored := e.stored()
	capacity := stored.Status.Capacity[v1.ResourceStorage]
	parts := []string{capacity.String(), string(stored.Status.AllocatedResourceStatuses[v1.ResourceStorage])}
	for _, c := range stored.Status.Conditions {
		parts = append(parts, string(c.Type))
	}
	slices.Sort(parts[2:])
	return strings.TrimSpace(strings.Join(parts, " "))
}

// report reports the result of an attempt to grow the volume to a size.
func (e *expansions) report(size string, err error) {
	e.Helper()
	pv, readErr := e.server.Direct().PersistentVolumes().Get(e.Context(), "disk", metav1.GetOptions{})
	require.NoError(e, readErr)
	e.Report(manager.Expansion{
		Spec: volume.NewSpecFromPersistentVolume(pv, false), NewSize: resource.MustParse(size), Err: err,
	})
	synctest.Wait()
}

// writes returns the calls since the last one, apart from lists and watches.
func (e *expansions) writes() []string {
	synctest.Wait()
	return slices.DeleteFunc(e.takeCalls(), func(call string) bool {
		return strings.HasPrefix(call, "list ") || strings.HasPrefix(call, "watch ")
	})
}

const (
	readClaim  = "get persistentvolumeclaims ns/data"
	patchClaim = "patch persistentvolumeclaims/status ns/data"
)

// TestClaimStatus: a success is one read and one write, and an event about the claim; a repeated
// result changes nothing and calls nothing.
func TestClaimStatus(t *testing.T) {
	withStatus(t, func(e *expansions) {
		e.report("2Gi", nil)
		require.Equal(t, "2Gi", e.status())
		require.Equal(t, []string{readClaim, patchClaim}, e.writes())
		require.Equal(t, []string{`Normal FileSystemResizeSuccessful ns/data volume "disk" has 2Gi on its node`}, e.takeEvents())
		allocated := e.stored().Status.AllocatedResources[v1.ResourceStorage]
		require.Equal(t, "2Gi", allocated.String(), "the size that the controller has allocated")
		version := e.stored().ResourceVersion
		e.report("2Gi", nil)
		time.Sleep(time.Hour)
		require.Empty(t, e.writes())
		require.Equal(t, version, e.stored().ResourceVersion)
	})
}

// TestClaimStatusOfFailures: each failure is an event if its text is new, and a write if it changes
// the status.
func TestClaimStatusOfFailures(t *testing.T) {
	withStatus(t, func(e *expansions) {
		busy := volume.AsTransient(errors.New("busy"))
		e.report("2Gi", busy)
		require.Equal(t, "1Gi NodeResizeInProgress FileSystemResizePending", e.status())
		require.Equal(t, []string{`Warning VolumeResizeFailed ns/data volume "disk": failed to expand the volume on its node: busy`}, e.takeEvents())
		require.Equal(t, []string{readClaim, patchClaim}, e.writes())
		for range 10 {
			e.report("2Gi", busy)
		}
		require.Empty(t, e.takeEvents())
		require.Empty(t, e.writes())
		e.report("2Gi", fmt.Errorf("2Gi: %w", volume.ErrInfeasible))
		require.Equal(t, "1Gi NodeResizeInfeasible FileSystemResizePending NodeResizeError", e.status())
		require.Len(t, e.takeEvents(), 1)
		e.report("2Gi", nil)
		require.Equal(t, "2Gi", e.status())
		require.Len(t, e.takeEvents(), 1)
	})
}

// TestClaimStatusWaitsForController: a size that the node has in a state of the controller is written
// when the controller has finished, and a failure of that time is not.
func TestClaimStatusWaitsForController(t *testing.T) {
	withStatus(t, func(e *expansions) {
		e.expand("2Gi", "3Gi", v1.PersistentVolumeClaimControllerResizeInProgress)
		e.writes()
		e.report("2Gi", nil)
		e.report("2Gi", fmt.Errorf("2Gi: %w", volume.ErrInfeasible))
		before := e.stored()
		time.Sleep(time.Hour)
		require.Equal(t, before, e.stored())
		require.Empty(t, e.writes())
		e.expand("2Gi", "2Gi", v1.PersistentVolumeClaimNodeResizePending)
		require.Equal(t, "2Gi", e.status())
		require.Equal(t, []string{readClaim, patchClaim}, e.writes())
	})
}

// TestFailuresCountOnce: a failure from before a new attempt of the controller is not that of the next
// attempt of the node.
func TestFailuresCountOnce(t *testing.T) {
	withStatus(t, func(e *expansions) {
		e.expand("2Gi", "2Gi", v1.PersistentVolumeClaimControllerResizeInProgress)
		e.report("2Gi", fmt.Errorf("2Gi: %w", volume.ErrInfeasible))
		e.expand("2Gi", "2Gi", v1.PersistentVolumeClaimNodeResizePending)
		require.Equal(t, "1Gi NodeResizePending FileSystemResizePending", e.status())
		e.report("2Gi", fmt.Errorf("2Gi: %w", volume.ErrInfeasible))
		require.Equal(t, "1Gi NodeResizeInfeasible FileSystemResizePending NodeResizeError", e.status())
	})
}

// TestResultDuringWrite: a result that is reported during the write of another one is written, too.
func TestResultDuringWrite(t *testing.T) {
	withStatus(t, func(e *expansions) {
		e.expand("3Gi", "3Gi", v1.PersistentVolumeClaimNodeResizePending)
		e.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Latency: time.Second})
		e.report("2Gi", nil)
		e.report("3Gi", fmt.Errorf("3Gi: %w", volume.ErrInfeasible))
		time.Sleep(time.Minute)
		require.Equal(t, "2Gi NodeResizeInfeasible FileSystemResizePending NodeResizeError", e.status())
	})
}

// TestClaimStatusDuringOutage: a result is written after an outage of any length, and each call
// waits for the backoff.
func TestClaimStatusDuringOutage(t *testing.T) {
	withStatus(t, func(e *expansions) {
		e.fail(errDown)
		e.report("2Gi", nil)
		time.Sleep(72 * time.Hour)
		require.Equal(t, "1Gi NodeResizePending FileSystemResizePending", e.status())
		require.Empty(t, e.takeEvents())
		require.Less(t, len(e.writes()), 72*60/4, "one call in four minutes")
		e.fail(nil)
		time.Sleep(10 * time.Minute)
		require.Equal(t, "2Gi", e.status())
		require.Len(t, e.takeEvents(), 1)
	})
}

// TestClaimStatusAfterUncertainWrite: a write that took effect and failed is not repeated.
func TestClaimStatusAfterUncertainWrite(t *testing.T) {
	withStatus(t, func(e *expansions) {
		e.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Times: 1, AfterEffect: true, Failure: apitest.ServerTimeout})
		release := e.server.HoldEvents("node")
		e.report("2Gi", nil)
		require.Equal(t, "2Gi", e.status())
		time.Sleep(time.Minute)
		require.Equal(t, []string{readClaim, readClaim, patchClaim}, e.writes())
		require.Len(t, e.takeEvents(), 1)
		release()
	})
}

// TestClaimStatusConflicts: a conflict leads to a new read, and the decision follows the other
// writer.
func TestClaimStatusConflicts(t *testing.T) {
	withStatus(t, func(e *expansions) {
		e.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Latency: time.Second})
		release := e.server.HoldEvents("node")
		e.report("2Gi", nil) // has read, and waits before its write
		e.expand("2Gi", "3Gi", v1.PersistentVolumeClaimControllerResizeInProgress)
		time.Sleep(time.Minute)
		require.Equal(t, "1Gi ControllerResizeInProgress FileSystemResizePending", e.status())
		require.Equal(t, []string{readClaim, readClaim, patchClaim}, e.writes())
		release()
		e.expand("3Gi", "3Gi", v1.PersistentVolumeClaimNodeResizePending)
		time.Sleep(time.Minute)
		require.Equal(t, "2Gi NodeResizePending FileSystemResizePending", e.status(), "the size that the volume has")
		e.report("3Gi", nil)
		time.Sleep(time.Minute)
		require.Equal(t, "3Gi", e.status())
	})
}

// TestClaimStatusOfRecreatedClaim: a claim of the same name with another UID is not changed, and gets
// no event, whether the watch or the read of the claim shows it first.
func TestClaimStatusOfRecreatedClaim(t *testing.T) {
	for name, call := range map[string]apitest.Call{"watch first": {Verb: apitest.Get}, "read first": {}} {
		t.Run(name, func(t *testing.T) {
			withStatus(t, func(e *expansions) {
				end := e.server.Inject(apitest.Fault{Call: call, Failure: apitest.Unavailable})
				if call.Verb == "" {
					e.server.CutWatches("")
				}
				e.report("2Gi", nil)
				e.remove(claim("data", "disk"))
				again := claim("data", "disk")
				again.UID = "again"
				e.put(again)
				before := e.stored()
				end()
				time.Sleep(time.Hour)
				require.Equal(t, before, e.stored())
				require.Empty(t, e.takeEvents())
				require.NotContains(t, e.writes(), patchClaim)
			})
		})
	}
}

// TestClaimStatusOfDeletedClaim: a result for a claim that no longer exists is dropped.
func TestClaimStatusOfDeletedClaim(t *testing.T) {
	withStatus(t, func(e *expansions) {
		e.remove(claim("data", "disk"))
		e.report("2Gi", nil)
		time.Sleep(time.Hour)
		require.Equal(t, []string{readClaim}, e.writes())
	})
}

// TestClaimStatusWithoutPod: the status is written although the pod has gone meanwhile.
func TestClaimStatusWithoutPod(t *testing.T) {
	withStatus(t, func(e *expansions) {
		e.fail(errDown)
		e.report("2Gi", nil)
		e.remove(pod("a"))
		e.fail(nil)
		time.Sleep(time.Hour)
		require.Equal(t, "2Gi", e.status())
	})
}

// TestClaimStatusKeepsOtherFields: a write changes no field that belongs to other programs.
func TestClaimStatusKeepsOtherFields(t *testing.T) {
	withStatus(t, func(e *expansions) {
		gold := "gold"
		e.setStatus(func(s *v1.PersistentVolumeClaimStatus) {
			s.CurrentVolumeAttributesClassName = &gold
			s.Capacity["example.com/iops"] = resource.MustParse("5")
			s.AllocatedResourceStatuses["example.com/iops"] = "ControllerResizeInProgress"
			s.Conditions = append(s.Conditions, v1.PersistentVolumeClaimCondition{Type: "Other", Status: v1.ConditionTrue})
		})
		want := e.stored().Status
		e.report("2Gi", nil)
		got := e.stored().Status
		want.Capacity[v1.ResourceStorage] = got.Capacity[v1.ResourceStorage]
		delete(want.AllocatedResourceStatuses, v1.ResourceStorage)
		want.Conditions = want.Conditions[1:]
		require.Equal(t, want, got)
		require.Equal(t, "2Gi  Other", e.status())
	})
}

func TestClaimStatusConfig(t *testing.T) {
	source, err := node.NewSource(node.Config{Cluster: apitest.NewServer(apitest.Config{}).Direct(), Node: "n"})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		config node.ClaimStatusConfig
		field  string
	}{
		"no source":   {node.ClaimStatusConfig{}, "ClaimStatusConfig.Source"},
		"backoff":     {node.ClaimStatusConfig{Source: source, Backoff: -1}, "ClaimStatusConfig.Backoff"},
		"max backoff": {node.ClaimStatusConfig{Source: source, MaxBackoff: -1}, "ClaimStatusConfig.MaxBackoff"},
	} {
		_, err := node.NewClaimStatus(test.config)
		var invalid *field.Error
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, test.field, invalid.Field, name)
	}
}
