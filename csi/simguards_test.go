package csi_test

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// simGuards are the code fragments that keep the rules of the specification, each with the code without
// it. The simulation fails without any one of them.
var simGuards = []testbed.Guard{
	{"one call for a volume", "call.go", "unlock, err := p.lockCalls(ctx, volumeName(driver, handle))", "unlock, err := func() {}, error(nil)"},
	{"only staged volumes are mounted for all pods", "plugin.go", "if err != nil || caps.stage {", "if err != nil || caps.stage || true {"},
	{"a volume is published from its staging path", "mounter.go", "if caps.stage {", "if false {"},
}

// tableGuards are those that a test of few steps finds missing.
var tableGuards = []testbed.Guard{
	{"an interrupted tear-down is repeated first", "upcall.go", "if call != nil && call.State == voldata.Reverting {", "if false {"},
}

// TestGuardsAreThere: a guard that has been written in another way is still in the lists.
func TestGuardsAreThere(t *testing.T) {
	testbed.CheckGuards(t, simGuards)
	testbed.CheckGuards(t, tableGuards)
}

// TestSimulationFindsMissingGuards: without any one of simGuards the simulation fails within 1,000
// seeds, and without any one of tableGuards a test of few steps. "make mutants" runs it; MUTANTS in the
// environment is a part of the names of those to remove.
func TestSimulationFindsMissingGuards(t *testing.T) {
	testbed.SimulationMutants(t, simGuards, tableGuards, "^TestInterruptedTearDown$")
}
