package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMistypedManifests: a directory that is not there is not made, which would be one
// without pods.
func TestMistypedManifests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "typo")
	_, err := newAgent(options{manifests: dir, root: filepath.Join(dir, ".nodeagent")}, io.Discard)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "-manifests")
	require.NoDirExists(t, dir)
}
