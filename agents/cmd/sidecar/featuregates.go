package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// featureGates are the gates of the five programs. All but Topology have one state here.
type featureGates struct{ withoutTopology bool }

// alwaysOn and neverOn are gates of the five programs that cannot be switched.
var (
	alwaysOn = []string{
		"AnnotateFsResize", "CSINodeExpandSecret", "HonorPVReclaimPolicy", "MutableCSINodeAllocatableCount",
		"RecoverVolumeExpansionFailure", "ReleaseLeaderElectionOnExit", "VolumeAttributesClass",
	}
	neverOn = []string{"CrossNamespaceVolumeDataSource"}
)

// String returns the gates that can be switched.
func (g *featureGates) String() string {
	if g == nil {
		return ""
	}
	return "Topology=" + strconv.FormatBool(!g.withoutTopology)
}

// Set sets the gates of a list.
func (g *featureGates) Set(list string) error {
	for gate := range strings.SplitSeq(list, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(gate), "=")
		on, err := strconv.ParseBool(text)
		switch {
		case err != nil:
			return fmt.Errorf("%q must be NAME=true or NAME=false", gate)
		case name == "Topology":
			g.withoutTopology = !on
		case slices.Contains(alwaysOn, name) && !on:
			return fmt.Errorf("%s is always true", name)
		case slices.Contains(neverOn, name) && on:
			return fmt.Errorf("%s is not supported", name)
		case !slices.Contains(alwaysOn, name) && !slices.Contains(neverOn, name):
			return fmt.Errorf("%s is unknown", name)
		}
	}
	return nil
}
