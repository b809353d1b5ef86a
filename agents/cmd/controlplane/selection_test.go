package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSelection: -controllers selects as the flag of kube-controller-manager does.
func TestSelection(t *testing.T) {
	all := allNames()
	require.Equal(t, []string{ephemeralVolumes, attacher, binder, expander, volumeProtection, claimProtection}, all)
	for text, want := range map[string][]string{
		"*":                                  all,
		claimProtection:                      {claimProtection},
		"pvc-protection,ephemeral-volume":    {ephemeralVolumes, claimProtection},
		"*,-" + volumeProtection:             {ephemeralVolumes, attacher, binder, expander, claimProtection},
		"-pv-protection,*":                   {ephemeralVolumes, attacher, binder, expander, claimProtection},
		"*,-pv-protection,pv-protection":     {ephemeralVolumes, attacher, binder, expander, claimProtection},
		"persistentvolume-binder":            {binder},
		"persistentvolume-expander":          {expander},
		"pv-protection,-pv-protection":       {volumeProtection},
		"*,-ephemeral-volume,pvc-protection": {attacher, binder, expander, volumeProtection, claimProtection},
	} {
		s, err := parseSelection(text)
		require.NoError(t, err, text)
		require.Equal(t, want, slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !s.has(name) }), text)
	}
	for text, want := range map[string]string{
		"":                    `unknown controller ""`,
		"*,job-controller":    `unknown controller "job-controller", must be one of ` + strings.Join(all, ", "),
		"-*":                  `unknown controller "*"`,
		"-" + claimProtection: "selects no controller",
		"*,-pvc-protection,-pv-protection,-ephemeral-volume,-persistentvolume-binder,-persistentvolume-expander,-attachdetach": "selects no controller",
	} {
		_, err := parseSelection(text)
		require.ErrorContains(t, err, want, text)
	}
}
