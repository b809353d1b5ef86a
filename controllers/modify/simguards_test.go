package modify_test

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// simGuards are the code fragments without which a claim shows attributes that its volume does not have, or a
// change does not end, each with the code without it. The simulation fails without any one of them.
var simGuards = []testbed.Guard{
	{"an open change keeps its class", "claim.go", "isOpen := state.Status == inProgress && !v.isSettled", "isOpen := false"},
	{"an uncertain outcome stays open", "handler.go", "last.isSettled, last.parameters = false, maps.Clone(parameters)", "last.isSettled, last.parameters = true, nil"},
	{"a volume that may have changed changes back", "claim.go", "wanted == present && v.isClean && isShown:", "wanted == present && isShown:"},
	{"a claim is changed in its version", "../internal/claimstatus/claimstatus.go", `map[string]any{"resourceVersion": claim.ResourceVersion}`, "map[string]any{}"},
	{"a claim that names another class after a change has its turn", "handler.go", "return pause > 0, pause, err // after", "return true, pause, err // after"},
	{"another class in the claim queues it", "feed.go", "return value(claim.Spec.VolumeAttributesClassName) != value(old.Spec.VolumeAttributesClassName) ||", "return false ||"},
}

// tableGuards are those that tests of few steps find missing, see tableTests.
var tableGuards = []testbed.Guard{
	{"a success without a record may have changed the volume", "handler.go", "last.isClean && err != nil && kind != volume.Uncertain", "last.isClean && kind != volume.Uncertain"},
	{"a claim and a volume are bound to each other", "claim.go", "|| !claimstatus.IsBound(v.claim, v.volume) {", "|| claimstatus.IsBound == nil {"},
	{"a lost class is left for the one that the claim names", "claim.go", "case isOpen && (!v.isLost ||", "case isOpen && (true ||"},
	{"a deleted class has the parameters of its open call", "handler.go", "last.target == name && last.parameters != nil:", "false:"},
	{"the API server proves the target of a resumed change", "handler.go", "if !t.isProven {", "if false {"},
	{"a class of another driver is infeasible", "handler.go", "case class.DriverName != driver:", "case false:"},
	{"an infeasible class is tried rarely", "handler.go", "return time.Until(last.ended.Add(c.config.RetryInfeasible))", "return 0"},
	{"a timeout leaves an open outcome", "handler.go", "if ctx.Err() != nil && volume.KindOf(err) == volume.Transient {", "if false {"},
	{"a transient error is no news of an open call", "handler.go", "last.isSettled = last.isSettled && isSame", "last.isSettled = true"},
	{"volumes of others are left alone", "handler.go", `c.config.Modifier.Name(v.volume) == ""`, "false"},
	{"an unseen state is looked at again", "handler.go", "max(unseen.PauseForState(c.claims, v.claim), unseen.PauseForState(c.volumes, v.volume))", "min(unseen.PauseForState(c.claims, v.claim), 0)"},
	{"a volume shows the class of its claim", "claim.go", "present == value(v.volume.Spec.VolumeAttributesClassName)", "true"},
}

const tableTests = "^(TestDecide|TestLostClass|TestOldCache|TestOtherDriver|TestInfeasible|TestTimeout|TestOpenOutcome|TestForeign|TestUnrecorded|TestPause|TestClassNamedAgainUnseen)$"

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
