package expand_test

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// simGuards are the code fragments without which a size is lost, shown too early, or never reached, each
// with the code without it. The simulation fails without any one of them.
var simGuards = []testbed.Guard{
	{"an open expansion keeps its size", "claim.go", "if isAllocated && !v.isSettled {", "if false {"},
	{"a refused size is marked again", "claim.go", "s.allocated.Cmp(size) == 0 && state == inProgress {", "s.allocated.Cmp(size) == 0 && (state == inProgress || state == infeasible) {"},
	{"the annotation of a volume is removed", "claim.go", "isMarked && s.status.Cmp(s.volume) >= 0 {", "isMarked && false {"},
	{"the annotation stays until the node has finished", "claim.go", "isMarked && s.status.Cmp(s.volume) >= 0 {", "isMarked {"},
	{"only a final error settles an open outcome", "handler.go", "kind == volume.Final || kind == volume.Transient && last.isSettled", "kind == volume.Final || kind == volume.Transient"},
	{"a node that has to finish is waited for", "status.go", "if result.NodeExpansionRequired {", "if false {"},
	{"a claim is changed in its version", "../internal/claimstatus/claimstatus.go", `map[string]any{"resourceVersion": claim.ResourceVersion}`, "map[string]any{}"},
	{"a volume grows before its claim", "handler.go", "if patch, isNeeded := grow(v.claim, v.volume, result); isNeeded {", "if patch, isNeeded := grow(v.claim, v.volume, result); isNeeded && false {"},
	{"another request ends the pause", "feed.go", "return !isSame(claim.Spec.Resources.Requests, old.Spec.Resources.Requests) ||", "return"},
	{"a node that gives up queues the claim", "feed.go", `(state == "" || state == nodeInfeasible)`, `state == ""`},
}

// tableGuards are those that tests of few steps find missing, see tableTests.
var tableGuards = []testbed.Guard{
	{"a claim grows to the size of its volume", "claim.go", "size := larger(s.request, s.volume)", "size := s.request"},
	{"an open outcome is no end", "claim.go", "&& !isOpen(state, v.isSettled) {", "{"},
	{"the node finishes first", "claim.go", "case nodePending, nodeInProgress:", "case v1.ClaimResourceStatus(\"none\"):"},
	{"the API server proves the size of a resumed expansion", "handler.go", "isProven := false", "isProven := true"},
	{"a volume is changed in its version", "status.go", "objectpatch.Of(pv).OfVersion(pv), false", "objectpatch.Of(pv), false"},
	{"a claim and a volume are bound to each other", "claim.go", "|| !claimstatus.IsBound(v.claim, v.volume) {", "|| claimstatus.IsBound == nil {"},
	{"hostile sizes have no step", "claim.go", "if quantity.Check(size) != nil || size.Sign() <= 0 {", "if quantity.Check(nil) != nil && size == nil {"},
	{"a result below the request is refused", "handler.go", "if result.Size.Cmp(asked) < 0 {", "if false {"},
	{"a timeout leaves an open outcome", "handler.go", "if ctx.Err() != nil && volume.KindOf(err) == volume.Transient {", "if false {"},
	{"a refused size is tried rarely", "handler.go", "return time.Until(last.ended.Add(c.config.RetryInfeasible))", "return 0"},
	{"an unseen state is looked at again", "handler.go", "max(unseen.PauseForState(c.claims, v.claim), unseen.PauseForState(c.volumes, v.volume))", "min(unseen.PauseForState(c.claims, v.claim), 0)"},
	{"volumes of others are left alone", "handler.go", `if name == "" {`, `if name == "" && false {`},
}

const tableTests = "^(TestDecideUnbound|TestDecide|TestExpandOnNode|TestSmallerResult|TestTimeout|TestNodeGaveUp|TestNodeGaveUpUnseen|TestOldCache|TestVolumeIsChanged|TestExternal)$"

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
