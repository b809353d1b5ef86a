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
	{"a volume with a rival is not bound", "claim.go", "case pv != nil && v.rival != \"\":", "case false:"},
	{"a volume whose claim lives is not reclaimed", "volume.go", "case v.claim != nil && v.claim.UID == ref.UID:", "case false:"},
	{"only a volume that was never bound is freed", "volume.go", "return isNew && has(pv,", "return has(pv,"},
	{"pods are read before a recycling", "recycle.go", "if usesClaim(pod, ref.Name) && !isLater {", "if false && !isLater {"},
	{"only the policy Recycle recycles", "volume.go", "case policy == v1.PersistentVolumeReclaimRecycle && v.recycles:", "case v.recycles:"},
	{"a claim waits for its consumer", "claim.go", "case waits && !isSelected:", "case false:"},
	{"a waiting claim does not search", "claim.go", "case !waits && !v.isSearched:", "case !v.isSearched:"},
	{"a volume in deletion is not bound", "claim.go", "case pv.DeletionTimestamp != nil:", "case false:"},
	{"an older reservation of the index is confirmed", "claimhandler.go", "pv.Spec.ClaimRef == nil && fit.IsFree(pv) && checkMatch(claim, pv) == nil", "true"},
	{"a provisioned volume of a living claim is kept", "volume.go", "case has(pv, provision.ProvisionedByAnnotation) && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete:", "case false:"},
}

// guardTests are the tests that find missing guards.
const guardTests = "^(TestDecideClaim|TestDecideVolume|TestCheckMatch|TestFewestWrites|TestManyPairs|TestLateVolumes|TestNamedVolume|TestLost|TestClasses|TestPlugin|TestStaleClaim|TestClaimGoneBeforeItWasBound|TestBoundElsewhere|TestConflictingBinder)$"

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
