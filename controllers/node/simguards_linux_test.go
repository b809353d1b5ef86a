package node_test

import (
	"slices"
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// simGuards are the code fragments that keep the invariants of a source, each with the code without
// it. The simulation fails without any one of them.
var simGuards = []testbed.Guard{
	{"a finished or deleted pod with containers is present", "podstate.go", "case !hasContainers(p.last.UID):", "case true:"},
	{"the manager sees a finished pod with containers as running", "podstate.go", "running.Status.Phase = v1.PodRunning", "running.Status.Phase = p.last.Status.Phase"},
	{"a local pod that was deleted during a restart is present", "podstate.go", "if s.podState(pod.UID) == nil {", "if false {"},
	{"a pod ends when another pod has its name", "podstate.go", "if before != nil && !(now != nil && now.UID == before.UID && isMirror(now) == isMirror(before)) {", "if before != nil && now == nil {"},
	{"a deleted pod without containers is forgotten", "podstate.go", "again := *state\n\t\t\ts.setPod(&again)", "again := *state\n\t\t\tagain.deleted = false\n\t\t\ts.setPod(&again)"},
	{"changed content is reported", "content.go", "s.subscribers.reportContent(pods)", "_ = pods"},
	{"the watch of an unused object ends", "objectset.go", "\tobject.stop()\n", ""},
	{"the watch of the volume of an unused claim ends", "objectset.go", `s.setVolumeOf(key, "")`, "_ = key"},
	{"the watch of an object lasts until its last user", "objectset.go", "if len(object.users) > 0 {", "if false {"},
	{"a list follows an expired version", "../api/objectwatch.go", "if errors.As(err, &status) && !apierrors.IsTooManyRequests(err) {", "if false && errors.As(err, &status) {"},
}

// writerGuards are those of the writers of status, like simGuards.
var writerGuards = []testbed.Guard{
	{"an incomplete list of volumes in use is not written", "nodestatus.go", "s.node != nil && complete && !slices.Equal", "s.node != nil && !slices.Equal"},
	{"a write with an open outcome is sent again", "nodestatus.go", "if s.write != nil && (s.node == nil || s.node.UID != s.write.uid || s.node.ResourceVersion != s.write.version) {", "if s.write != nil {"},
	{"a volume that a write removes is not reported", "nodestatus.go", " && (s.write == nil || slices.Contains(s.write.names, name))", ""},
	{"a write without a refusal has an open outcome", "statuswriter.go", "return code >= 400 && code < 500 && code != 408", "return code != 0"},
	{"an attach waits for the controller", "nodestatus.go", "case !ok:", "case false:"},
	{"the manager receives the removals before the write", "statuswriter.go", "\tw.mark()\n\treturn next\n", "\treturn next\n"},
	{"a change of the volumes in use wakes the writer", "statuswriter.go", "\tdefer volumes.SubscribeVolumesInUse(a.poke)()\n", ""},
	{"a change of the node wakes the writer", "attacher.go", "s.observe(change) })\n\ta.poke()\n", "s.observe(change) })\n"},
	{"a change of the node wakes the attaches", "attacher.go", "\tclose(a.changed)\n", ""},
	{"a VolumeAttachment without an effect is not attached", "attachmenterror.go", "case !object.Status.Attached:", "case false:"},
	{"the watch of a released VolumeAttachment ends", "volumeattachment.go", "\tw.stop()\n", ""},
	{"the plugin of a volume that was given up releases the volume", "attacher.go", "plugin.ReleaseAttached(at.Name)", "_ = plugin"},
	{"the watch of a used VolumeAttachment lasts", "volumeattachment.go", "if w.waiters > 0 || w.isUsed {", "if w.waiters > 0 {"},
	{"a state of the controller stays", "claimgrowth.go", ` || state != "" && !isNodeState(state) {`, " {"},
	{"an expansion ends with its size", "claimgrowth.go", "return sizes.goal.Cmp(*g.size) <= 0\n", "return true\n"},
	{"the failure of a smaller size is not that of the expansion", "claimgrowth.go", " && sizes.goal.Cmp(g.tried) <= 0:", ":"},
	{"a transient failure is no error condition", "claimgrowth.go", "isStuck := isFinal || errors.Is(g.failure, volume.ErrFailedPrecondition)", "isStuck := true"},
	{"a change of a claim continues its growth", "claimstatus.go", "\tdefer c.config.Source.Subscribe(c.addChanged)()\n", ""},
	{"the growth of a missing claim is dropped", "claimstatus.go", "case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err):", "case apierrors.IsNotFound(err) && false:"},
}

// tableGuards are those that tests of few steps find missing, see tableTests.
var tableGuards = []testbed.Guard{
	{"a write of a claim has a version", "../internal/claimstatus/claimstatus.go", `map[string]any{"resourceVersion": claim.ResourceVersion}`, "map[string]any{}"},
	{"the first list is consistent", "source.go", "Consistent: true,", "Consistent: false,"},
	{"the first list is awaited", "podstate.go", "for !synced() {", "for false {"},
	{"HasContainers is called with the lock of the pods", "podstate.go", "\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n\t// With mu: a pod that Pod returns after HasContainers has begun to return true stays present.\n\tstate.present = state.presentPod(s.config.HasContainers)\n",
		"\tstate.present = state.presentPod(s.config.HasContainers)\n\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n"},
	{"the first state is reported after a failed read", "content.go", "if change.Replay && !missed {", "if change.Replay {"},
	{"an unread object is not missing", "objectset.go", "case err != nil:", "case false:"},
	{"a mirror pod has the UID of its static pod", "mirrorpod.go", "static.UID = types.UID(pod.Annotations[v1.MirrorPodAnnotationKey])", "static.UID = types.UID(pod.UID)"},
	{"the UID of a static pod is the name of a directory", "mirrorpod.go", "string(static.UID)); err != nil {", "string(static.UID)); err != nil && false {"},
	{"a mirror pod takes no UID that is known", "mirrorpod.go", "if owner, ok := s.ownerOf(uid); ok {\n\t\tpod, ok", "if owner, ok := s.ownerOf(uid); ok && false {\n\t\tpod, ok"},
	{"a mirror pod takes no UID of an ordinary pod", "mirrorpod.go", "case !ok, !owner.isStatic:", "case !ok:"},
	{"a new mirror pod of the name has the node as its controller", "mirrorpod.go", "case !s.namesNode(pod, node):", "case false:"},
	{"the same mirror pod needs no present Node object", "mirrorpod.go", "case pod.object == owner.object:", "case false:"},
	{"a new mirror pod of the name waits for the node", "mirrorpod.go", "case node == nil:\n\t\t\treturn none, errNodeUnread\n\t\t}\n\t\treturn pod, nil", "}\n\t\treturn pod, nil"},
	{"a mirror pod has the node as its controller", "mirrorpod.go", "if s.namesNode(pod, node) {\n\t\t\tofKubelet", "if true {\n\t\t\tofKubelet"},
	{"the controller of a mirror pod has the UID of the node", "mirrorpod.go", "(node == nil || owner.UID == node.UID)", "true"},
	{"no mirror pod is chosen before all are listed", "mirrorpod.go", "case !s.isListed:\n\t\treturn none, errNotListed", "case false:\n\t\treturn none, errNotListed"},
	{"no mirror pod is chosen before the node was read", "mirrorpod.go", "case node == nil:\n\t\treturn none, errNodeUnread\n\tcase len", "case false:\n\t\treturn none, errNodeUnread\n\tcase len"},
	{"of two mirror pods none is chosen", "mirrorpod.go", "case len(ofKubelet) > 1:", "case false:"},
	{"the last one of two mirror pods waits for the containers", "mirrorpod.go", "case state != nil && state.lost && s.config.HasContainers(uid):", "case state != nil && false:"},
	{"a mirror pod that goes undecided is noted", "mirrorpod.go", "\t\tstate.lost = true\n", ""},
	{"an undecided UID is held", "mirrorpod.go", "if state != nil || !s.isListed {\n", "if state != nil {\n"},
	{"the first state of a new watch of the node decides again", "mirrorpod.go", "\ts.nodeUID = \"\" // the first", "\t// the first"},
	{"the known pod of a held UID stays known", "mirrorpod.go", "key, state.owner = owner.name, &owner", "key = owner.name"},
	{"a changed node decides again", "mirrorpod.go", "if uid != s.nodeUID {", "if false {"},
	{"a static pod is recorded", "podstate.go", "s.staticPods.put(uid, identity{api.KeyOf(state.last), state.object, true})", "_ = uid"},
	{"a recorded static pod without its mirror pod is held", "podstate.go", "owner: &owner, hold: errNoMirror, deleted: true", "hold: errDisputed, deleted: true"},
	{"an older state of the node is ignored", "nodestatus.go", "if s.node == nil || versionOf(node) >= versionOf(s.node) {", "if true {"},
	{"a refusal ends no open outcome", "nodestatus.go", "if isRefused && !s.write.isOpen {", "if isRefused {"},
	{"an attach waits for the report", "nodestatus.go", "case !s.isReported(name):", "case false:"},
	{"a conflict reads the node", "statuswriter.go", "if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {", "if apierrors.IsNotFound(err) {"},
	{"a write of the node has a version", "nodestatus.go", `"metadata": map[string]any{"resourceVersion": w.version},`, ""},
	{"a deleted VolumeAttachment is not attached", "attachmenterror.go", "case object.DeletionTimestamp != nil:", "case false:"},
	{"a size never shrinks", "claimgrowth.go", "sizes.capacity.Cmp(*g.size) < 0 {", "sizes.capacity.Cmp(*g.size) != 0 {"},
	{"a growth is that of one claim", "claimgrowth.go", "claim.UID == g.claim && ", ""},
	{"a growth keeps the larger size", "claimgrowth.go", "if g.isOfSame(before) && before.size != nil &&", "if false && before.size != nil &&"},
	{"a growth that is written needs no read", "claimstatus.go", "reported.isOf(last) && decideStatus", "false && decideStatus"},
	{"a newer result is written, too", "claimstatus.go", "if current == nil || current.reports != reported.reports {", "if current == nil {"},
}

const tableTests = "^(TestFirstListIsConsistent|TestFirstListIsAwaited|TestContainersStartDuringDeletion|TestUnread|" +
	"TestMirrorPods|TestForgedMirrorPod|TestMirrorPodOfOrdinaryPod|TestNewMirrorPodOfTheName|TestOrdinaryPodBecomesMirrorPod|TestKnownPodsWithoutNode|TestMirrorPodGoesBeforeTheNodeIsRead|TestRecordOfLocalPod|TestOwnersOfMirrorPods|TestTwoMirrorPods|TestMirrorPodsWithoutNode|TestRecordsOfStaticPods|" +
	"TestNewestNode|TestAttachAfterOpenRemoval|TestAttachWaits|TestConflictWithKubelet|TestNotAttached|" +
	"TestDecideStatus|TestClaimStatusOfRecreatedClaim|TestGrowthsAddUp|TestClaimStatus|TestClaimStatusConflicts|TestResultDuringWrite)$"

// TestGuardsAreThere: a guard that has been written in another way is still in the lists.
func TestGuardsAreThere(t *testing.T) {
	testbed.CheckGuards(t, simGuards)
	testbed.CheckGuards(t, writerGuards)
	testbed.CheckGuards(t, tableGuards)
}

// TestSimulationFindsMissingGuards: without any one of simGuards and writerGuards the simulation fails
// within 1,000 seeds, and without any one of tableGuards a test of few steps. "make mutants" runs it;
// MUTANTS in the environment is a part of the names of those to remove.
func TestSimulationFindsMissingGuards(t *testing.T) {
	testbed.SimulationMutants(t, slices.Concat(simGuards, writerGuards), tableGuards, tableTests)
}
