package attachment_test

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// simGuards are the code fragments without which a volume stays attached for ever, is detached while it is
// promised, or is never attached, each with the code without it. The simulation fails without any one of them.
var simGuards = []testbed.Guard{
	{"a volume is guarded before Attach", "attachment.go", "case !v.hasVolumeGuard():\n\t\treturn stepGuardVolume, nil", "case false:\n\t\treturn stepGuardVolume, nil"},
	{"a VolumeAttachment that was never attached is detached", "attachment.go", "case !hasFinalizer(v.attachment, v.finalizer):\n\t\treturn stepNone, nil", "case !hasFinalizer(v.attachment, v.finalizer):\n\t\treturn stepNone, nil\n\tcase !v.attachment.Status.Attached:\n\t\treturn stepRelease, nil"},
	{"a detach succeeds before the finalizer goes", "call.go", "return c.recordFailure(ctx, key, v.attachment, err)\n\t}\n\terr := c.release(ctx, v.attachment)", "_ = c.recordFailure(ctx, key, v.attachment, err)\n\t}\n\terr := c.release(ctx, v.attachment)"},
	{"a detach uses the recorded node ID", "attachment.go", "if id := recordedTarget(v.attachment).nodeID; id != \"\" {", "if id := recordedTarget(v.attachment).nodeID; id != \"\" && v.nodeID == \"\" {"},
	{"an earlier target is detached first", "attachment.go", "return stepMove, nil", "return stepGuard, nil"},
	{"of two VolumeAttachments one keeps the volume", "view.go", "v.isShared, err = c.isShared(ctx, v)", "_, err = c.isShared(ctx, v)"},
	{"calls for a volume and a node are exclusive", "handler.go", "unlock, err := c.pairs.Lock(ctx, v.pair())", "unlock, err := c.pairs.Lock(ctx, key.Name)"},
	{"a volume keeps its finalizer until its last VolumeAttachment", "volume.go", "if left > 0 {", "if left > 0 && pause > 0 {"},
	{"a volume is handled after the end of a VolumeAttachment", "feed.go", "c.addVolumeOf(old)", "_ = old"},
	{"a lost volume is attached again", "list.go", "c.markLost(attached, !present[at])", "c.markLost(attached, !present[at] && false)"},
	{"a deletion ends a pause", "feed.go", "return old.DeletionTimestamp == nil && attachment.DeletionTimestamp != nil ||", "return false ||"},
}

// tableGuards are those that tests of few steps find missing, see tableTests.
var tableGuards = []testbed.Guard{
	{"a node ID wakes its VolumeAttachments", "feed.go", "if change.Replay || nodeIDOf(change.Old, c.rules.driver) == nodeIDOf(change.New, c.rules.driver) {", "if change.Key().Name != \"\" {"},
	{"a VolumeAttachment is guarded before Attach", "attachment.go", "case !hasFinalizer(v.attachment, v.finalizer) || recordedTarget(v.attachment) != v.wanted():", "case recordedTarget(v.attachment) != v.wanted():"},
	{"a volume in deletion is not attached", "attachment.go", "case v.volume.DeletionTimestamp != nil && !(v.isLost && v.hasVolumeGuard()):", "case v.volume.DeletionTimestamp != nil && false:"},
	{"the API server proves a deletion", "handler.go", "if next != stepAttach || p.attachment != v.attachment.UID {", "if false {"},
	{"the API server proves a volume", "handler.go", "if next != stepAttach || name == \"\" || p.volume == v.volume.UID {", "if true {"},
	{"a state of the API server is decided upon", "handler.go", "again != next || proven.attachment.UID != v.attachment.UID || proven.pair() != v.pair() {", "again == stepNone && false {"},
	{"a volume is checked before the finalizer", "handler.go", "if err := c.check(ctx, v); err != nil {", "if err := error(nil); err != nil {"},
	{"an attached volume receives the finalizer unchecked", "call.go", "mayBeAttached := v.attachment.Status.Attached ||", "mayBeAttached := false &&"},
	{"a volume that may be attached receives the finalizer unchecked", "call.go", " || recordedTarget(v.attachment).nodeID != \"\"\n", "\n"},
	{"a later VolumeAttachment is attached again", "call.go", "if err != nil {\n\t\terr = errors.Join(err, c.checkSuccessor", "if false {\n\t\terr = errors.Join(err, c.checkSuccessor"},
	{"an unknown outcome is repeated with its volume", "call.go", "if last.open != nil && last.open.UID == pv.UID {", "if false {"},
	{"only an answer ends an unknown outcome", "call.go", "case volume.Transient:\n\t\tdefault:", "default:"},
	{"a timeout leaves an unknown outcome", "call.go", "if ctx.Err() != nil && volume.KindOf(err) == volume.Transient &&", "if false &&"},
	{"a call that has not begun has no outcome", "call.go", " && !errors.Is(err, volume.ErrTransient) {", " {"},
	{"metadata has a limit", "call.go", "if size > mostMetadata {", "if false {"},
	{"metadata of an earlier attach goes", "status.go", "entries[key] = nil // of an earlier Attach", "_ = key"},
	{"a VolumeAttachment with other finalizers shows its end", "status.go", "if len(attachment.Finalizers) > 1 &&", "if false &&"},
	{"other drivers are left alone", "attachment.go", "case attachment == nil || attachment.Spec.Attacher != v.driver:", "case attachment == nil:"},
	{"volumes of other drivers are left alone", "attachment.go", "case v.volume.Spec.CSI != nil && v.volume.Spec.CSI.Driver != v.driver:", "case false:"},
	{"another volume of the name is not detached", "attachment.go", "if v.volume != nil && (recorded == \"\" || recorded == handleOf(v.volume)) {", "if v.volume != nil && (recorded == \"\" || recorded != \"\") {"},
	{"an attached volume keeps its target", "attachment.go", "if v.attachment.Status.Attached && recorded.nodeID != \"\" {", "if false {"},
	{"a long node ID is refused", "attachment.go", "case len(wanted.nodeID) > mostNodeID:", "case false:"},
	{"a hash names no volume", "target.go", "if handle == \"\" || strings.HasPrefix(handle, hashMark) {", "if handle == \"\" {"},
	{"a handle like a hash is hashed", "target.go", "if len(handle) <= mostHandle && !strings.HasPrefix(handle, hashMark) {", "if len(handle) <= mostHandle {"},
	{"only a guarded VolumeAttachment keeps the volume of another one", "view.go", "|| other.DeletionTimestamp != nil || !hasFinalizer(other, c.rules.finalizer) {", "|| other.DeletionTimestamp != nil {"},
	{"an unseen VolumeAttachment is looked at again", "volume.go", "pause = max(pause, unseen.PauseFor(c.attachments, attachment))", "_ = unseen.PauseFor(c.attachments, attachment)"},
	{"an unexpected attachment is in two lists", "list.go", "lists[at] == 2 {", "lists[at] == 1 {"},
	{"a list may be older than an attach", "list.go", " && isAttached(old) {", " {"},
	{"a list may be older than a VolumeAttachment", "list.go", "old.UID == attached.UID && ", ""},
	{"a later VolumeAttachment keeps its memory", "memory.go", "if ok && last.attachment != attachment {", "if ok && false {"},
	{"the memory of an earlier VolumeAttachment goes", "call.go", "\t\tc.attempts.forget(key, ended.UID)\n", ""},
	{"a volume in deletion is not lost", "list.go", "if !isAttached(attachment) {", "if !attachment.Status.Attached {"},
	{"texts are short", "status.go", "telemetry.Text(err.Error())", "telemetry.Text(\"\") + err.Error()"},
	{"finalizers are restored", "feed.go", "hasFinalizer(old, r.finalizer) && !hasFinalizer(attachment, r.finalizer)", "false"},
}

const tableTests = "^(TestDecide|TestCheck.*|TestDetachedTarget|TestWanted|TestOld.*|TestEndDuring.*Detach|TestSameCall|TestTimeout|TestUnsentCall|TestMetadata|TestOtherFinalizer|TestLongHandle|TestUnguardedPartner|TestUnseenAttachment|TestUnexpected|TestLostDuringDeletion|Test.*DuringList|TestSetLost|TestErrorText|TestFinalizerOfUser|TestMissingNode)$"

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
