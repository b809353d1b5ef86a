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
	{"an interrupted tear-down is repeated first", "upcall.go", "if call != nil && call.State == voldata.Reverting {", "if false {"},
	{"a volume is published from its staging path", "mounter.go", "if caps.stage {", "if false {"},
}

// TestGuardsAreThere: a guard that has been written in another way is still in the list.
func TestGuardsAreThere(t *testing.T) { testbed.CheckGuards(t, simGuards) }

// TestSimulationFindsMissingGuards: without any one of simGuards the simulation fails within 1,000
// seeds. "make mutants" runs it; MUTANTS in the environment is a part of the names of those to remove.
func TestSimulationFindsMissingGuards(t *testing.T) {
	testbed.SimulationMutants(t, simGuards, nil, "")
}
