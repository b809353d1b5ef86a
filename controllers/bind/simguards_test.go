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
	{"a reference of another UID is no reference", "claim.go", "case !isReservedFor(pv, claim):", "case !refersTo(pv, claim):"},
	{"the absence of a volume is confirmed", "claim.go", "case !v.isFresh && (pv == nil ||", "case !v.isFresh && (false ||"},
	{"the absence of a claim is confirmed", "volume.go", "case !v.isConfirmed:", "case false:"},
	{"a volume with a rival is not bound", "claim.go", "case pv != nil && v.rival != \"\":", "case false:"},
	{"a volume whose claim lives is not reclaimed", "volume.go", "case v.claim != nil && v.claim.UID == ref.UID:", "case false:"},
	{"only a volume that was never bound is freed", "volume.go", "return isNew && has(pv,", "return has(pv,"},
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
	{"a volume with the data of a claim is not available", "volume.go", "case ref == nil && v.owner != (api.Key{}):", "case false:"},
	{"a claim waits for its consumer", "claim.go", "case waits && !isSelected:", "case false:"},
	{"a waiting claim does not search", "claim.go", "case !waits && !v.isSearched:", "case !v.isSearched:"},
	{"a volume in deletion is not bound", "claim.go", "case pv.DeletionTimestamp != nil:", "case false:"},
	{"an older reservation of the index is confirmed", "claimhandler.go", "pv.Spec.ClaimRef == nil && fit.IsFree(pv) && checkMatch(claim, pv) == nil", "true"},
	{"a provisioned volume of a living claim is kept", "volume.go", "case has(pv, provision.ProvisionedByAnnotation) && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete:", "case false:"},
}

// guardTests are the tests that find missing guards.
const guardTests = "^(TestDecideClaim|TestDecideVolume|TestCheckMatch|TestFewestWrites|TestManyPairs|TestLateVolumes|TestNamedVolume|TestLost|TestClasses|TestPlugin|TestStaleClaim|TestClaimGoneBeforeItWasBound|TestBoundElsewhere|TestConflictingBinder|TestConfirmedForOneClaim|TestClaimDeletedBeforeItIsNamed|TestSlowStatus|TestLostClaimComesFirst|TestReferenceOfUsedVolumeRemoved|TestUnreferredWhileRecycled|TestUncertainRecycling|TestTwoBindersRecycle|TestLostMark|TestMarkOfAnotherRun|TestRecyclingReadsNodes|TestUnboundVolumeInDeletion)$"

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
