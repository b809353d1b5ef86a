package main

import (
	"fmt"
	"slices"
	"strings"
)

// Names of controllers of kube-controller-manager.
const (
	claimProtection  = "persistentvolumeclaim-protection-controller"
	volumeProtection = "persistentvolume-protection-controller"
	ephemeralVolumes = "ephemeral-volume-controller"
	binder           = "persistentvolume-binder-controller"
	expander         = "persistentvolume-expander-controller"
	attacher         = "persistentvolume-attach-detach-controller"
)

// controllerNames are the names of the controllers of this program, each with its older name.
var controllerNames = map[string]string{
	claimProtection: "pvc-protection", volumeProtection: "pv-protection", ephemeralVolumes: "ephemeral-volume",
	binder: "persistentvolume-binder", expander: "persistentvolume-expander", attacher: "attachdetach",
}

// every selects all controllers.
const every = "*"

// A selection is the value of -controllers.
type selection []string

// parseSelection returns the selection of a flag's value. The error names an unknown controller.
func parseSelection(text string) (s selection, err error) {
	for item := range strings.SplitSeq(text, ",") {
		name, sign := strings.TrimPrefix(item, "-"), ""
		if name != item {
			sign = "-"
		}
		if item != every {
			if name, err = fullName(name); err != nil {
				return nil, err
			}
		}
		s = append(s, sign+name)
	}
	if !slices.ContainsFunc(allNames(), s.has) {
		return nil, fmt.Errorf("-controllers %q selects no controller", text)
	}
	return s, nil
}

// fullName returns the name of a controller for its name or its older name.
func fullName(name string) (string, error) {
	for full, older := range controllerNames {
		if name == full || name == older {
			return full, nil
		}
	}
	return "", fmt.Errorf("-controllers: unknown controller %q, must be one of %s", name, strings.Join(allNames(), ", "))
}

// allNames returns the names of all controllers, sorted.
func allNames() (names []string) {
	for name := range controllerNames {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// has reports whether a controller is selected. The first item with its name decides.
func (s selection) has(name string) bool {
	for _, item := range s {
		switch item {
		case name:
			return true
		case "-" + name:
			return false
		}
	}
	return slices.Contains(s, every)
}
