package protect_test

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// simGuards are the code fragments that keep used objects from their end, and unused ones from staying,
// each with the code without it. The simulation fails without any one of them.
var simGuards = []testbed.Guard{
	{"pods are listed before a release", "protectionhandler.go", "used, err := onServer(ctx, object)", "used, err := false, error(nil)"},
	{"a finished pod keeps its claims", "pod.go", `return pod.Spec.NodeName != "" && slices`, `return !claimindex.IsFinished(pod) && pod.Spec.NodeName != "" && slices`},
	{"pods keep the claims of their ephemeral volumes", "pod.go", "(v.Ephemeral == nil || ownsClaim(pod, claim) && !isShutDown(pod))", "v.Ephemeral == nil"},
	{"a pod that was shut down keeps no owned claim", "pod.go", " && !isShutDown(pod))", ")"},
	{"the claim of a volume keeps it before the phase", "volume.go", "return claim != nil && pv.Spec.ClaimRef != nil", "return false && pv.Spec.ClaimRef != nil"},
	{"a claim without a volume keeps its own", "volume.go", `(claim.Spec.VolumeName == "" || claim.Spec.VolumeName == pv.Name)`, "claim.Spec.VolumeName == pv.Name"},
	{"the end of a pod queues its claims", "feed.go", "c.addClaimsOf(change.Old, false)", ""},
	{"the end of a claim queues its volumes", "feed.go", "c.volumePool.Add(api.KeyOf(pv))", "_ = pv"},
	{"the end of a claim queues its pods", "feed.go", "c.podPool.Add(api.KeyOf(pod))", ""},
}

// tableGuards are those that tests of few steps find missing, see tableTests.
var tableGuards = []testbed.Guard{
	{"only the claim of the UID is released", "../internal/objectpatch/objectpatch.go", `map[string]any{"uid": object.GetUID()}`, "map[string]any{}"},
	{"bound volumes are used", "volume.go", "if pv.Status.Phase == v1.VolumeBound {", "if false {"},
	{"the claim of another owner is not used", "ephemeral.go", "case !ownsClaim(pod, claim):", "case false:"},
	{"a list shows the present state", "claim.go", "options := metav1.ListOptions{FieldSelector: scheduled}", `options := metav1.ListOptions{FieldSelector: scheduled, ResourceVersion: "0"}`},
	{"a pod that the cache lacks is listed again", "protectionhandler.go", "return workers.Result{After: p.recheck}, nil", "return workers.Result{}, nil"},
	{"a volume is released at the version that was unused", "protectionhandler.go", "if p.isExact {", "if false {"},
	{"a pod without a node keeps no claim", "pod.go", `return pod.Spec.NodeName != "" && slices`, "return slices"},
	{"another claim of the name is read", "ephemeral.go", "if apierrors.IsAlreadyExists(err) {", "if false && apierrors.IsAlreadyExists(err) {"},
	{"a released volume costs no read", "volume.go", "if !ok || isReleased(pv) {", "if !ok {"},
	{"the template is copied", "ephemeral.go", "template = template.DeepCopy()", ""},
	{"a new owner queues the pod", "feed.go", "(hasEnded || !reflect.DeepEqual(change.New.OwnerReferences, old.OwnerReferences))", "(hasEnded || false && reflect.DeepEqual(change.New, old))"},
	{"a pod that was shut down queues its claims", "feed.go", "isShutDown(pod) && !isShutDown(old) ||", ""},
	{"an index is added once", "../internal/claimindex/claimindex.go", "if _, err := cache.ByIndex(name, \"\"); err == nil {", "if false {"},
	{"the condition is read before it says unused", "condition.go", "if u == usageUnread {\n\t\t\treturn", "if false {\n\t\t\treturn"},
}

const tableTests = "^(TestClaimOfTheSameName|TestNameOfAnotherClaim|TestPodOutsideOfTheCache|TestReleasedVolume|TestVolumeIsBoundMeanwhile|TestPodRules|TestFailedCreation|TestVolumePhases|TestNewClaim|TestOwnerChanges|TestPodWaitsForItsClaim|TestCachesOfTheEmbedder|TestDecideCondition|TestUnscheduledPod)$"

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
