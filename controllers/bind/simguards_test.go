package bind_test

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// guards are the code fragments that keep objects from being bound twice and storage from being lost, each
// with the code without it.
var guards = []testbed.Guard{
	{"the reference is written to the version of the decision", "status.go", "\"uid\": claim.UID, \"resourceVersion\": claim.ResourceVersion,\n\t}}).ofVersion(pv)", "\"uid\": claim.UID, \"resourceVersion\": claim.ResourceVersion,\n\t}})"},
	{"a claim that has been bound is not bound anew", "claim.go", "case has(claim, BindCompletedAnnotation):", "case false:"},
	{"a volume of another claim is not bound", "claim.go", "case pv.Spec.ClaimRef != nil && !refersTo(pv, claim):", "case false:"},
	{"a reference of another UID is no reference", "claim.go", "case !isReservedFor(pv, claim):", "case false:"},
	{"the absence of a volume is confirmed", "claim.go", "case !v.isFresh && (pv == nil ||", "case !v.isFresh && (false ||"},
	{"the absence of a claim is confirmed", "volume.go", "case !v.isConfirmed:", "case false:"},
	{"a volume with a rival is not bound", "claim.go", "case pv != nil && v.rival != nil:", "case false:"},
	{"a volume whose claim lives is not reclaimed", "volume.go", "case v.claim != nil && v.claim.UID == ref.UID:", "case false:"},
	{"only a volume that was never bound is freed", "volume.go", "return isNew && has(pv,", "return (isNew || true) && has(pv,"},
	{"pods are read before a recycling", "recycle.go", "if err := c.confirmUnused(ctx, pv); err != nil {", "if err := c.confirmUnused(ctx, pv); false {"},
	{"only the policy Recycle recycles", "volume.go", "case policy == v1.PersistentVolumeReclaimRecycle && v.recycles:", "case v.recycles:"},
	{"a marked volume is not made available", "volume.go", "if isMarked(pv) {\n\t\treturn v.decideMarked()", "if false {\n\t\treturn v.decideMarked()"},
	{"a mark of another run is waited for", "recycle.go", "pause > 0 {", "false && pause > 0 {"},
	{"a call ends when its mark is lost", "mark.go", "lose(errMarkLost)\n", "\n"},
	{"only a run with the mark removes it", "recycle.go", "if !c.holdsMark(now, pv) {", "if now == nil {"},
	{"an uncertain recycling keeps its mark", "recycle.go", "if errors.Is(failure, volume.ErrUncertain) {", "if false {"},
	{"the confirmation is for one claim", "volumehandler.go", "v.volume.Spec.ClaimRef.UID == confirmed", "confirmed != \"\""},
	{"a claim is named in its version", "status.go", ".annotated(annotations).ofVersion(claim)", ".annotated(annotations)"},
	{"a Lost claim becomes a rival before it is bound", "claim.go", "case v.claim.Status.Phase == v1.ClaimLost: //", "case false: //"},
	{"a claim without a status is a rival", "claimhandler.go", "(countsLost || claim.Status.Phase != v1.ClaimLost)", "(countsLost || claim.Status.Phase == v1.ClaimBound)"},
	{"a Lost claim keeps a volume without a reference", "claimhandler.go", "countsLost := pv.Spec.ClaimRef == nil && !has(of, BindCompletedAnnotation)", "countsLost := false"},
	{"a volume with the data of a claim is not available", "volume.go", "case ref == nil && v.owner != nil:", "case false:"},
	{"a claim waits for its consumer", "claim.go", "case awaitsConsumer(claim, v.class):", "case false:"},
	{"a waiting claim does not search", "claim.go", "case !waits && !v.isSearched:", "case (!waits || true) && !v.isSearched:"},
	{"a volume in deletion is not bound", "claim.go", "case pv.DeletionTimestamp != nil:", "case false:"},
	{"an older reservation of the index is confirmed", "claimhandler.go", "pv.Spec.ClaimRef == nil && fit.IsFree(pv) && checkMatch(claim, pv) == nil", "true"},
	{"a claim chooses another volume than that of a rival", "claimhandler.go", "if turn.choice != \"\" && v.rival != nil {", "if false {"},
	{"a rejected volume wakes no claim", "claimhandler.go", "if !turn.rejected[volume] {", "if true {"},
	{"a volume without news wakes no claim", "claimhandler.go", "c.index.Set(pv) && pv.ResourceVersion != version {", "c.index.Set(pv) && version != \"\" {"},
	{"a late state does not hide a bound claim", "claimants.go", "if fit.IsOlder(claim.ResourceVersion, c.states[key].version) {", "if false && fit.IsOlder(\"\", \"\") {"},
	{"a bound claim leaves a volume that is recycled alone", "claim.go", "case isMarked(pv) && (isOpenFor(pv, claim) || isReservedFor(pv, claim)):", "case false:"},
	{"a claim that names a volume which is recycled waits", "claim.go", "case isMarked(pv):\n\t\treturn v.wait(", "case false:\n\t\treturn v.wait("},
	{"a volume that is recycled is not chosen", "match.go", "if isMarked(pv) {", "if false {"},
	{"a claim that names the volume of a rival waits", "claim.go", "case v.rival != nil:\n\t\treturn v.wait(", "case false:\n\t\treturn v.wait("},
	{"a claim becomes bound after its rival is Lost", "claim.go", "case v.claim.Status.Phase != v1.ClaimBound && v.rival != nil:", "case false:"},
	{"a Lost claim is bound again in a fresh view", "claim.go", "case v.claim.Status.Phase == v1.ClaimLost && !v.isFresh:", "case false:"},
	{"the claim of a released volume is read", "claim.go", "case isReclaimed(v.volume) && !v.isVerified:", "case false:"},
	{"a claim in deletion is not bound anew", "claim.go", "case claim.DeletionTimestamp != nil:\n\t\treturn claimHold", "case false:\n\t\treturn claimHold"},
	{"a phase is written to the version of the decision", "status.go", "\"message\": message}).ofVersion(pv)", "\"message\": message})"},
	{"a mark is written to the version that was confirmed", "mark.go", "string(value)}).ofVersion(pv), err", "string(value)}), err"},
	{"the claim is read before a recycling", "recycle.go", "if err != nil || !isGone {", "if err != nil || !isGone && false {"},
	{"the volume that was read is to be recycled", "recycle.go", "step != volumeRecycle {", "step != volumeRecycle && false {"},
	{"the policy Retain ends no recycling", "volume.go", "case policy == v1.PersistentVolumeReclaimRetain, !m.isOf(ref)", "case policy == \"\", !m.isOf(ref)"},
	{"a mark for a claim that lives is kept", "volume.go", "case v.claim != nil && v.claim.UID == m.UID:", "case false:"},
	{"a binder that cannot renew its mark ends its call", "mark.go", " || time.Since(renewed) >= markPatience {", " || time.Since(renewed) < 0 {"},
	{"the end of a claim is that of its UID", "volumehandler.go", "return claim == nil || claim.UID != pv.Spec.ClaimRef.UID, nil", "return claim == nil, nil"},
	{"the fresh volume is the named one", "claimhandler.go", "v.isFresh = turn.fresh != \"\" && turn.fresh == claim.Spec.VolumeName", "v.isFresh = true"},
	{"rivals are read before a claim becomes bound to a bound volume", "claim.go", "v.volume.Status.Phase == v1.VolumeBound && !v.isSole:", "false:"},
	{"owners are read before a bound volume becomes available", "volume.go", "case ref == nil && pv.Status.Phase == v1.VolumeBound && !v.isRead:", "case false:"},
	{"the end of an earlier claim does not hide a later one", "claimants.go", "c.states[key].uid == claim.UID {", "claim != nil {"},
	{"an unseen claim is read again", "volumehandler.go", "case volumeHold:\n\t\t\tc.announceMismatch(key, v, event)\n\t\t\treturn workers.Result{After: unseen.PauseFor(c.claims, v.claim)}, nil", "case volumeHold:\n\t\t\treturn workers.Result{}, nil"},
	{"a claim in deletion keeps its volume", "claimants.go", " || claim.DeletionTimestamp != nil && claim.Status.Phase == v1.ClaimBound", ""},
	{"a provisioned volume of a living claim is kept", "volume.go", "case has(pv, provision.ProvisionedByAnnotation) && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete:", "case false:"},
}

// guardTests are the tests that find missing guards.
const guardTests = "^(TestDecideClaim|TestDecideVolume|TestCheckMatch|TestFewestWrites|TestManyPairs|TestLateVolumes|TestNamedVolume|TestLost|TestClasses|TestPlugin|TestStaleClaim|TestClaimGoneBeforeItWasBound|TestBoundElsewhere|TestConflictingBinder|TestConfirmedForOneClaim|TestClaimDeletedBeforeItIsNamed|TestSlowStatus|TestLostClaimComesFirst|TestReferenceOfUsedVolumeRemoved|TestUnreferredWhileRecycled|TestUncertainRecycling|TestTwoBindersRecycle|TestLostMark|TestMarkOfAnotherRun|TestRecyclingReadsNodes|TestUnboundVolumeInDeletion|TestAnotherVolumeThanTheRivals|TestRejectedVolumeWakesNoClaim|TestMarkOfNoRecycling|TestRejectedChoice|TestEditBesideLateBinder|TestLateStateOfBoundClaim|TestClaimants|TestUnseenClaim|TestUnseenVolume|TestReservedBeforeTheMark|TestReservedBeforeTheRelease|TestReleasedVolumeOfLivingClaim|TestPolicyIsReadBeforeARecycling|TestClaimComesAgain|TestOwnerInDeletion)$"

// TestGuardsAreThere: a guard that has been written in another way is still in the list.
func TestGuardsAreThere(t *testing.T) { testbed.CheckGuards(t, guards) }

// TestTablesFindMissingGuards: without any one of the guards a test of few steps fails. "make mutants" runs
// it; MUTANTS in the environment is a part of the names of those to remove.
func TestTablesFindMissingGuards(t *testing.T) {
	if !testbed.Long() {
		t.Skip("it compiles the package for each guard: VOLUMEKIT_LONG=1")
	}
	testbed.Mutants(t, testbed.Mutation{Guards: guards, Run: guardTests})
}
