package attach_test

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// simGuards are the code fragments without which a volume is on two nodes, leaves a node that uses it, or
// ends in a wrong place, each with the code without it. The simulation fails without any one of them.
var simGuards = []testbed.Guard{
	{"a volume is withdrawn before it is detached", "plan.go", "case n.exists && !n.isWithdrawn:", "case false:"},
	{"a volume in use is not detached", "plan.go", "return n.exists && !n.isInUse &&", "return n.exists &&"},
	{"an exclusive volume has one node", "plan.go", "case p.isExclusive && n != next:", "case false:"},
	{"a holder makes a volume uncertain", "volumeview.go", "if !isKnown || !state", "if isKnown && !state"},
	{"a plugin attaches a held volume", "holder.go", "written, err := c.hold(ctx, v, pv, nodes, left)", "written, err := c.hold(ctx, v, pv, nodes[:0], left)"},
	{"an uncertain attach stays uncertain", "plugin.go", "case volume.KindOf(err) == volume.Uncertain:\n\t\treturn\n", "case false:\n\t\treturn\n"},
	{"a detached volume is released", "plan.go", "n.isHeld && !p.keepsHolder &&", "false && n.isHeld &&"},
}

// tableGuards are those that tests of few steps find missing, see tableTests.
var tableGuards = []testbed.Guard{
	{"an uncertain detach is not put back", "plugin.go", "case volume.KindOf(err) != volume.Uncertain:", "case true:"},
	{"an entry that the cache does not show is withdrawn, too", "plan.go", "case n.exists && !n.isWithdrawn:", "case n.exists && n.isReported:"},
	{"the list of a new node does not count", "plan.go", "!n.reportsFrom.IsZero() && !p.isBefore(n.reportsFrom)", "!n.reportsFrom.IsZero()"},
	{"nor that of a silent one", "plan.go", "!n.reportsFrom.IsZero() && !p.isBefore(n.reportsFrom)", "!p.isBefore(n.reportsFrom)"},
	{"a dead node is confirmed", "csiattachment.go", "record := c.records.observe(name, node, time.Now(), false)\n\tif node != nil && isOutOfService(node) {", "record := nodeRecord{since: time.Unix(0, 0)}\n\tif node != nil && isOutOfService(node) {"},
	{"the condition Ready begins the time anew", "nodehealth.go", "case next.since.IsZero() || !last.transition.Equal(&next.transition):", "case next.since.IsZero():"},
	{"a missing node counts as dead later", "volumeview.go", "if !v.now.Before(n.deadFrom) {", "if true {"},
	{"the VolumeAttachment of another run is read", "csiattachment.go", "if va != nil {\n\t\t\t\treturn false, nil", "if va != nil && false {\n\t\t\t\treturn false, nil"},
	{"an exclusive CSI volume is held", "csiattachment.go", "if v.isExclusive {\n\t\tisFree", "if false {\n\t\tisFree"},
	{"unmanaged nodes are left alone", "plan.go", "case n.state == foreign || n.exists && !n.isManaged:", "case n.state == foreign:"},
	{"a foreign attachment is left alone", "plan.go", "case n.state == foreign || n.exists && !n.isManaged:", "case n.exists && !n.isManaged:"},
	{"a failed detach has a pause", "plan.go", "\tcase p.isBefore(n.pausedUntil):\n\tcase n.exists", "\tcase n.exists"},
	{"a pending removal is reverted", "plan.go", "n.pending == removing ||", "false ||"},
	{"a pod with a finished container gives up its volume", "volumeview.go", "if !keepsFinished(node) {", "if false {"},
	{"a finished pod keeps its volume on some nodes", "volumeview.go", "if !keepsFinished(node) {", "if true {"},
	{"claim and volume are bound to each other", "poduse.go", "if !ok || !claimstatus.IsBound(claim, pv) {", "if _ = claimstatus.IsBound; !ok {"},
	{"an earlier volume is not detached while the present one is in use", "volumeview.go", "v.byName[name].isInUse = v.byName[name].isInUse || isUsed", "_ = isUsed"},
	{"an earlier volume in use is not detached", "volumeview.go", "n, id := v.byName[name], c.guess(va, v.objects[name])", "n, id := v.byName[name], v1.UniqueVolumeName(\"\")"},
	{"a driver may not attach", "volumeview.go", "return !ok || object.Spec.AttachRequired == nil || *object.Spec.AttachRequired", "return !ok || object != nil"},
	{"a full node is refused", "csiattachment.go", "return count >= limit", "return count > limit+9"},
	{"room queues the volumes that wait", "feed.go", "c.queue(false, c.waiting.take(types.NodeName(va.Spec.NodeName))...)", ""},
	{"a refused detach is put back", "plugin.go", "c.putBack(v, n, before.devicePath)", ""},
	{"a call of another run is waited for", "plan.go", "return n.state != detached || v.now.Before(n.openUntil)", "return n.state != detached"},
	{"a holder is written in the version of the volume", "holder.go", "patch := objectpatch.Of(pv).OfVersion(pv)", "patch := objectpatch.Of(pv)"},
	{"an attach of another run leaves no old state", "holder.go", "c.plugged.doubt(v.id, h, c.run, now)", ""},
	{"a transient error is no news of an earlier call", "plugin.go", "case volume.KindOf(err) == volume.Final:\n\t\tc.plugged", "case true:\n\t\tc.plugged"},
	{"the status is written in the version of the node", "reports.go", `"uid": node.UID, "resourceVersion": node.ResourceVersion`, `"uid": node.UID`},
	{"a write drops earlier plans", "reports.go", " || n.written[id].write > since {", " {"},
	{"the API server proves an absence", "reports.go", "if node == nil || !isWritten(node, changes) {", "if node == nil {"},
	{"a dangling volume is detached", "plugin.go", "errors.As(err, &dangling) &&", "errors.As(err, &dangling) && false &&"},
	{"a node that no longer uses a volume queues it", "feed.go", "c.queue(false, differences(old.Status.VolumesInUse, node.Status.VolumesInUse)...)", ""},
	{"a node that changes its health queues its volumes", "feed.go", "return isHealthy(old) != isHealthy(node) || isOutOfService(old) != isOutOfService(node) ||", "return isHealthy(old) != isHealthy(node) ||"},
	{"a stale report is withdrawn", "plan.go", "(n.isReported || n.pending == adding)", "false"},
	{"the lists of a new Node object are read when they count", "volumeview.go", "(n.dead != \"\" || !last.at.Before(n.reportsFrom))", "true"},
	{"they are read once", "plan.go", "n.dead != \"\" || !p.isBefore(n.reportsFrom)", "true"},
	{"a reverted report is made again", "reports.go", "c.queue(false, c.reports.takeUnseen(name)...)", "c.reports.takeUnseen(name)"},
	{"a refused detach is put back", "handler.go", "c.putBack(v, s.node, \"\")", ""},
	{"one volume receives the last place", "csiattachment.go", "if isFull, _ := c.isFull(ctx, v, node); isFull {", "if false {"},
	{"a driver may take its time", "waits.go", "case v.now.Before(silent):", "case v.now.Before(silent) && false:"},
	{"a silent driver is reported in time", "handler.go", "if next := c.reportWaits(v); !next.IsZero() &&", "if next := c.reportWaits(v); false &&"},
	{"a foreign attachment is reported", "waits.go", "if n.state == foreign {", "if n.state == foreign && false {"},
	{"a failing detach is reported to pods", "waits.go", "case n.state == detaching && va.Status.DetachError != nil:", "case false:"},
	{"a holder covers the begin of a call", "holder.go", "&& now.Sub(h.At) < holderAge", ""},
}

const tableTests = "^(TestPlan|TestHolder|TestNodeRecords|TestForcedDetach|TestReadyMeanwhile|TestGoneNode|TestOtherController|TestMove|TestUnmanagedNode|TestFinishedPods|TestUnbound|TestAttachNotRequired|TestLimit|TestPutBack|TestOrphan|TestEarlierVolume|TestHolderConflict|TestAttachOfOtherController|TestLiveLists|TestOutOfService|TestDangling|TestStatusVersion|TestTransientAfterUncertain|TestSilentDriver|TestFailingDetach|TestForeignAttachment|TestRequestAfterWrite|TestRevertedReport|TestLateNewNodeObject|TestNewNodeObjectRecovers|TestRefusedDetach|TestLastPlace)$"

// TestGuardsAreThere: a guard that has been written in another way is still in the lists.
func TestGuardsAreThere(t *testing.T) {
	testbed.CheckGuards(t, simGuards)
	testbed.CheckGuards(t, tableGuards)
}

// TestSimulationFindsMissingGuards: without any one of simGuards the simulation fails within 1,000 seeds,
// and without any one of tableGuards a test of few steps. "make mutants" runs it; MUTANTS in the
// environment is a part of the names of those to remove.
func TestSimulationFindsMissingGuards(t *testing.T) {
	testbed.SimulationMutants(t, simGuards, tableGuards, tableTests)
}
