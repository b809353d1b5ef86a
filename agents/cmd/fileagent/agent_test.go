package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMistypedManifests checks that a missing directory of manifests is not created: it
// would be a directory without pods.
func TestMistypedManifests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "typo")
	_, err := newAgent(t.Context(), options{manifests: dir, root: filepath.Join(dir, ".fileagent")}, io.Discard)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "-manifests")
	require.NoDirExists(t, dir)
}
