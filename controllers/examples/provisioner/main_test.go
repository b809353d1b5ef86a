package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLength: the documentation of module controllers promises 40 lines.
func TestLength(t *testing.T) {
	text, err := os.ReadFile("main.go")
	require.NoError(t, err)
	_, provisioner, ok := strings.Cut(string(text), "\ntype directories")
	provisioner, _, _ = strings.Cut(provisioner, "\nfunc main")
	require.True(t, ok)
	require.LessOrEqual(t, strings.Count(provisioner, "\n"), 40)
}

// TestDirectories: both methods can be repeated, and Delete removes the files of the volume alone.
func TestDirectories(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	outside := filepath.Join(root, "kept")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	d := directories{root, "node-1"}
	options := provision.Options{PVName: "pvc-1", PVC: &v1.PersistentVolumeClaim{}}
	pv, err := d.Provision(t.Context(), options)
	require.NoError(t, err)
	dir := filepath.Join(root, "pvc-1")
	require.Equal(t, dir, pv.Spec.Local.Path)
	require.DirExists(t, dir)
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	again, err := d.Provision(t.Context(), options)
	require.NoError(t, err)
	require.Equal(t, pv, again)

	options.PVName, options.StorageClass.Parameters = "pvc-2", map[string]string{"colour": "red"}
	_, err = d.Provision(t.Context(), options)
	require.ErrorContains(t, err, `parameters[colour]: Invalid value: "red"`)
	require.NoDirExists(t, filepath.Join(root, "pvc-2"))

	pv.ObjectMeta = metav1.ObjectMeta{Name: "pvc-1"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.Delete(ended, pv), context.Canceled)
	for range 2 {
		require.NoError(t, d.Delete(t.Context(), pv))
		require.NoDirExists(t, dir)
	}
	require.FileExists(t, outside)
}
