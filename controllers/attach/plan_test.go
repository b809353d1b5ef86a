package attach

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/testbed"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// on returns the view of a healthy node that has reported for long.
func on(name types.NodeName, changes ...func(*nodeView)) *nodeView {
	n := &nodeView{name: name, exists: true, isManaged: true, reportsFrom: noon.Add(-time.Hour)}
	for _, change := range changes {
		change(n)
	}
	return n
}

func wanted(minutes int) func(*nodeView) {
	return func(n *nodeView) {
		created := metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute))
		n.pods = []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "pod", CreationTimestamp: created}}}
	}
}

func is(state attachment) func(*nodeView) { return func(n *nodeView) { n.state = state } }

func reported(n *nodeView)  { n.isReported = true }
func inUse(n *nodeView)     { n.isInUse = true }
func withdrawn(n *nodeView) { n.isWithdrawn = true }
func held(n *nodeView)      { n.isHeld = true }
func unmanaged(n *nodeView) { n.isManaged = false }
func missing(n *nodeView)   { n.exists, n.isManaged, n.reportsFrom = false, false, time.Time{} }
func full(n *nodeView)      { n.isFull = true }

func dead(cause string) func(*nodeView) {
	return func(n *nodeView) { n.dead, n.deadFrom = cause, noon.Add(-time.Minute) }
}

func after(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// describe returns steps and the minutes until the next turn.
func describe(steps []step, wakeAt time.Time) string {
	names := map[stepKind]string{
		stepWithdraw: "withdraw", stepReport: "report", stepDetach: "detach", stepForce: "force",
		stepRelease: "release", stepAttach: "attach", stepRefuse: "refuse",
	}
	var all []string
	for _, s := range steps {
		text := names[s.kind] + " " + string(s.node.name)
		for _, blocker := range s.blockers {
			text += " for " + string(blocker.name)
		}
		if s.cause != "" {
			text += " by " + s.cause
		}
		all = append(all, text)
	}
	if !wakeAt.IsZero() {
		all = append(all, fmt.Sprintf("wake in %v", wakeAt.Sub(noon).Minutes()))
	}
	return strings.Join(all, ", ")
}

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		name     string
		isShared bool
		nodes    []*nodeView
		want     string
	}{
		{"a wanted volume is attached", false, []*nodeView{on("a", wanted(0))}, "attach a"},
		{"a shared one to each node", true, []*nodeView{on("a", wanted(0)), on("b", wanted(0))}, "attach a, attach b"},
		{"an exclusive one to the node of the oldest pod", false, []*nodeView{on("a", wanted(1)), on("b", wanted(0))}, "attach b"},
		{"or to the node that it was attached to", false, []*nodeView{on("a", wanted(0)), on("b", wanted(1), held)}, "attach b"},
		{"an unmanaged node is left alone", false, []*nodeView{on("a", wanted(0), unmanaged)}, ""},
		{"also with an attachment", false, []*nodeView{on("a", is(attached), unmanaged, reported)}, ""},
		{"a missing node is waited for", false, []*nodeView{on("a", wanted(0), missing)}, ""},
		{"the driver is waited for", false, []*nodeView{on("a", wanted(0), is(attaching))}, ""},
		{"an attached volume is reported", false, []*nodeView{on("a", wanted(0), is(attached))}, "report a"},
		{"once", false, []*nodeView{on("a", wanted(0), is(attached), reported)}, ""},
		{"a pending removal is reverted", false, []*nodeView{on("a", wanted(0), is(attached), reported, func(n *nodeView) { n.pending = removing })}, "report a"},
		{"another path is reported", false, []*nodeView{on("a", wanted(0), is(attached), reported, func(n *nodeView) { n.devicePath = "/dev/b" })}, "report a"},
		{"an uncertain volume is attached again", false, []*nodeView{on("a", wanted(0), is(uncertain))}, "attach a"},
		{"a volume in use elsewhere is refused", false, []*nodeView{on("a", wanted(0), is(attached), reported), on("b", wanted(0))}, "refuse b for a"},
		{"an uncertain volume elsewhere, too", false, []*nodeView{on("a", is(uncertain), withdrawn, inUse), on("b", wanted(0))}, "refuse b for a"},
		{"a foreign attachment, too", false, []*nodeView{on("a", is(foreign)), on("b", wanted(0))}, "refuse b for a"},
		{"an attachment on an unmanaged node, too", false, []*nodeView{on("a", is(attached), unmanaged), on("b", wanted(0))}, "refuse b for a"},
		{"not a shared volume", true, []*nodeView{on("a", wanted(0), is(attached), reported), on("b", wanted(0))}, "attach b"},
		{"a detach comes first", false, []*nodeView{on("a", is(attached), reported), on("b", wanted(0))}, "withdraw a"},
		{"then the detach", false, []*nodeView{on("a", is(attached), withdrawn), on("b", wanted(0))}, "detach a"},
		{"then the driver detaches", false, []*nodeView{on("a", is(detaching)), on("b", wanted(0))}, ""},
		{"then the attach", false, []*nodeView{on("a", held), on("b", wanted(0))}, "release a, attach b"},
		{"a volume that was not reported is withdrawn, too", false, []*nodeView{on("a", is(attaching))}, "withdraw a"},
		{"a volume in use is not detached", false, []*nodeView{on("a", is(attached), withdrawn, inUse)}, ""},
		{"until the node counts as dead", false, []*nodeView{on("a", is(attached), withdrawn, inUse, func(n *nodeView) { n.deadFrom = after(2) })}, "wake in 2"},
		{"a dead node is not waited for", false, []*nodeView{on("a", is(attached), withdrawn, inUse, dead(causeTimeout))}, "force a by timeout"},
		{"but its status is written", false, []*nodeView{on("a", is(attached), reported, inUse, dead(causeTimeout))}, "withdraw a"},
		{"a dead node that has reported is not forced", false, []*nodeView{on("a", is(attached), withdrawn, dead(causeOutOfService))}, "detach a"},
		{"a dead node with pods keeps its volumes", false, []*nodeView{on("a", wanted(0), is(attached), reported, dead(causeTimeout))}, ""},
		{"a missing node counts as dead later", false, []*nodeView{on("a", is(attached), missing, func(n *nodeView) { n.deadFrom = after(3) })}, "wake in 3"},
		{"and then", false, []*nodeView{on("a", is(attached), missing, dead(causeTimeout))}, "force a by timeout"},
		{"the list of a new node does not count", false, []*nodeView{on("a", is(attached), withdrawn, func(n *nodeView) { n.reportsFrom = after(1) })}, "wake in 1"},
		{"nor that of a silent one", false, []*nodeView{on("a", is(attached), withdrawn, func(n *nodeView) { n.reportsFrom = time.Time{} })}, ""},
		{"a lost call is waited for", false, []*nodeView{on("a", func(n *nodeView) { n.openUntil = after(2) }), on("b", wanted(0))}, "wake in 2"},
		{"not for the same node", false, []*nodeView{on("a", wanted(0), func(n *nodeView) { n.openUntil = after(2) })}, "attach a"},
		{"not for a shared volume", true, []*nodeView{on("a", func(n *nodeView) { n.openUntil = after(2) }), on("b", wanted(0))}, "attach b"},
		{"the call of another run ends before a detach", false, []*nodeView{on("a", is(uncertain), withdrawn, func(n *nodeView) { n.openUntil = after(2) })}, "wake in 2"},
		{"a failed attach has a pause", false, []*nodeView{on("a", wanted(0), func(n *nodeView) { n.pausedUntil = after(1) })}, "wake in 1"},
		{"a failed detach has a pause, and stays reported", false, []*nodeView{on("a", is(attached), reported, func(n *nodeView) { n.pausedUntil = after(1) })}, "wake in 1"},
		{"a full node is refused", false, []*nodeView{on("a", wanted(0), full)}, "refuse a"},
		{"a stale report is withdrawn", false, []*nodeView{on("a", reported)}, "withdraw a"},
		{"also during the detach", false, []*nodeView{on("a", is(detaching), reported)}, "withdraw a"},
		{"also while another node has the volume", false, []*nodeView{on("a", wanted(0), reported), on("b", wanted(0), is(attached), reported)}, "refuse a for b, withdraw a"},
		{"also while the node is full", true, []*nodeView{on("a", wanted(0), reported, full)}, "refuse a, withdraw a"},
		{"not before an attach", true, []*nodeView{on("a", wanted(0), reported)}, "attach a"},
		{"also if a pod has come back", false, []*nodeView{on("a", wanted(0), is(detaching), reported)}, "withdraw a"},
		{"a detached volume is released", false, []*nodeView{on("a", held)}, "release a"},
		{"a foreign attachment is left alone", false, []*nodeView{on("a", is(foreign))}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := view{isExclusive: !test.isShared, isAttachable: true, now: noon, nodes: test.nodes}
			require.Equal(t, test.want, describe(plan(v)))
		})
	}
}

// TestPlanNotAttachable: a volume of a driver that attaches none is detached.
func TestPlanNotAttachable(t *testing.T) {
	require.Equal(t, "withdraw a", describe(plan(view{isExclusive: true, now: noon, nodes: []*nodeView{on("a", wanted(0), is(attached), reported)}})))
	require.Empty(t, describe(plan(view{isExclusive: true, now: noon, nodes: []*nodeView{on("a", wanted(0))}})))
}

// TestPlanKeepsHolder: the holder of a CSI volume stays.
func TestPlanKeepsHolder(t *testing.T) {
	require.Empty(t, describe(plan(view{keepsHolder: true, now: noon, nodes: []*nodeView{on("a", held)}})))
}

func TestHolder(t *testing.T) {
	pv := func(value string) *v1.PersistentVolume {
		return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{HolderAnnotation: value}}}
	}
	for _, value := range []string{"", "x", "null", `{"nodes":"a"}`, `{"at":"never"}`, "[]"} {
		require.Equal(t, holder{}, holderOf(pv(value)), value)
	}
	h := holderOf(pv(`{"nodes":["a"],"run":"one","at":"2026-01-01T12:00:00Z","until":"2026-01-01T12:02:00Z"}`))
	require.Equal(t, holder{Nodes: []types.NodeName{"a"}, Run: "one", At: noon, Until: after(2)}, h)
	require.True(t, h.covers("a", "one", noon.Add(holderAge-1)))
	require.False(t, h.covers("a", "one", noon.Add(holderAge)))
	require.False(t, h.covers("b", "one", noon))
	require.False(t, h.covers("a", "two", noon))
	require.Zero(t, h.openUntil("one", noon))
	require.Equal(t, after(2), h.openUntil("two", noon))
	require.Zero(t, h.openUntil("two", noon.Add(-2*time.Hour)), "no time of this cluster")
	next := hold{nodes: []types.NodeName{"b"}, isExclusive: true, run: "two", now: after(1), longest: 30 * time.Second}
	require.Equal(t, holder{[]types.NodeName{"b"}, "two", after(1), after(3), after(2)}, h.with(next))
	require.Equal(t, after(2), h.with(next).openUntil("two", after(1)), "the call of the run before")
	require.Equal(t, after(3), h.with(next).openUntil("three", after(1)))
	next.now = after(2)
	require.Zero(t, h.with(next).Open)
	next.isExclusive = false
	require.Equal(t, []types.NodeName{"a", "b"}, h.with(next).Nodes)
	require.Empty(t, h.without([]types.NodeName{"a"}).Nodes)
}

// TestApply: other entries keep their places and paths.
func TestApply(t *testing.T) {
	list := []v1.AttachedVolume{{Name: "z", DevicePath: "1"}, {Name: "a", DevicePath: "2"}, {Name: "m"}}
	require.Equal(t, list, apply(list, nil))
	require.Equal(t, []v1.AttachedVolume{{Name: "z", DevicePath: "1"}, {Name: "a", DevicePath: "3"}, {Name: "b"}, {Name: "c"}},
		apply(list, map[v1.UniqueVolumeName]report{
			"m": {reporting: removing}, "a": {adding, "3"}, "c": {reporting: adding}, "b": {reporting: adding}, "x": {reporting: removing},
		}))
	require.Equal(t, []v1.AttachedVolume{}, apply([]v1.AttachedVolume{{Name: "a"}, {Name: "a"}}, map[v1.UniqueVolumeName]report{"a": {reporting: removing}}))
}

// TestNodeRecords: the time without the condition Ready begins anew after each change.
func TestNodeRecords(t *testing.T) {
	node := func(uid types.UID, status v1.ConditionStatus, minutes int) *v1.Node {
		return &v1.Node{
			ObjectMeta: metav1.ObjectMeta{UID: uid, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
			Status: v1.NodeStatus{Conditions: []v1.NodeCondition{
				{Type: v1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(after(minutes))},
			}},
		}
	}
	var records nodeRecords
	record := records.observe("a", node("1", v1.ConditionTrue, 0), after(1), true)
	require.Zero(t, record.since)
	require.Equal(t, noon.Add(-time.Hour+settleTime), record.reportsFrom(node("1", v1.ConditionTrue, 0)))
	require.Equal(t, after(2), records.observe("a", node("1", v1.ConditionUnknown, 2), after(2), false).since)
	require.Equal(t, after(2), records.observe("a", node("1", v1.ConditionUnknown, 2), after(5), false).since)
	require.Equal(t, after(7), records.observe("a", node("1", v1.ConditionUnknown, 6), after(7), false).since, "Ready meanwhile")
	require.Equal(t, after(8), records.observe("a", nil, after(8), false).since)
	require.Equal(t, after(8), records.observe("a", nil, after(9), false).since)
	record = records.observe("a", node("2", v1.ConditionTrue, 9), after(10), false)
	require.Zero(t, record.since)
	require.Equal(t, after(11), record.reportsFrom(node("2", v1.ConditionTrue, 9)))
	require.Zero(t, record.reportsFrom(&v1.Node{}))
}

func TestDifferences(t *testing.T) {
	names := func(texts ...string) (ids []v1.UniqueVolumeName) {
		for _, text := range texts {
			ids = append(ids, v1.UniqueVolumeName(text))
		}
		return ids
	}
	require.Empty(t, differences(nil, nil))
	require.Empty(t, differences(names("a", "b"), names("b", "a", "a")))
	require.ElementsMatch(t, names("a", "d"), differences(names("a", "b", "c"), names("c", "b", "d")))
}

// TestDifferencesOfLongLists: the time for long lists is linear, as nodes write them.
func TestDifferencesOfLongLists(t *testing.T) {
	testbed.RealTime(t)
	var long, other []v1.UniqueVolumeName
	for i := range 20_000 {
		long, other = append(long, v1.UniqueVolumeName(fmt.Sprintf("a%06d", i))), append(other, v1.UniqueVolumeName(fmt.Sprintf("b%06d", i)))
	}
	begin := time.Now()
	require.Len(t, differences(long, other), 40_000)
	require.Less(t, time.Since(begin), 3*time.Second)
}

// TestRequestAfterWrite: a change that was planned before the last write for the volume is dropped.
func TestRequestAfterWrite(t *testing.T) {
	var r reports
	change, opposite := report{reporting: adding, devicePath: "/dev/a"}, report{reporting: removing}
	planned := r.lastWrite()
	require.True(t, r.request("a", "volume", change, planned))
	require.False(t, r.request("a", "volume", change, planned), "it is pending")
	due, _ := r.take("a", time.Now())
	r.done("a", "uid", time.Now(), due)
	require.False(t, r.request("a", "volume", change, planned), "it has been written")
	require.False(t, r.request("a", "volume", opposite, planned))
	require.True(t, r.request("a", "other", change, planned), "of another volume")
	require.True(t, r.request("a", "volume", opposite, r.lastWrite()))
}
