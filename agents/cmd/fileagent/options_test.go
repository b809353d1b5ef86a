package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{
		"-manifests", t.TempDir(), "-node", "n1", "-node-labels", "zone=a,example.com/x=", "-node-labels", "zone=b",
		"-links", "/etc,/var", "-device-links", "/dev/disk/by-id", "-devices", "-timeout", "90s",
	}, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]string{v1.LabelHostname: "n1", "zone": "b", "example.com/x": ""}, o.labels.ofNode("n1"))
	require.Equal(t, "example.com/x=,zone=b", o.labels.String())
	require.True(t, o.devices)
	require.Len(t, o.links, 2)

	for args, says := range map[string]string{
		"-timeout 5":           "a number with a unit, such as 90s, 5m or 1h30m",
		"-timeout 0s":          "-timeout must be more than 0s, got 0s",
		"-node-labels zone":    "is no label: KEY=VALUE",
		"-node-labels a/b/c=d": "is no label: KEY=VALUE",
		"-node A_B":            "-node \"A_B\": ",
		"-devices":             "require -manifests",
	} {
		_, err := parseOptions(strings.Fields(args), nil)
		require.ErrorContains(t, err, says)
	}
	var help strings.Builder
	_, err = parseOptions([]string{"-h"}, &help)
	require.Error(t, err)
	require.Contains(t, help.String(), "-timeout TIME\n")
	require.Contains(t, strings.Join(strings.Fields(help.String()), " "), "such as 90s, 5m or 1h30m (default 2m0s)")
}

func TestTokens(t *testing.T) {
	token, err := tokens{}.GetServiceAccountToken(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Contains(t, string(token), "made-up")

	file := t.TempDir() + "/token"
	require.ErrorIs(t, tokens{file}.check(), os.ErrNotExist)
	require.NoError(t, os.WriteFile(file, []byte(" \n"), 0o600))
	require.ErrorContains(t, tokens{file}.check(), "empty")
	require.NoError(t, os.WriteFile(file, []byte("sesame\n"), 0o600))
	token, err = tokens{file}.GetServiceAccountToken(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, "sesame", string(token))
}
