package csi_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/csitest/kubenode"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// servedVariable has the configuration of a driver in the environment of the test program that serves
// it.
const servedVariable = "VOLUMEKIT_CSI_SERVED"

// A servedDriver is a driver of fake volumes in a process of its own.
type servedDriver struct {
	Name     string
	Dir      string // of the records and the storage
	Node     string
	Target   string // directory in which volumes are published: the kubelet's root
	Registry string // directory of the registration sockets
}

// endpoint returns the path of the driver's socket.
func (d servedDriver) endpoint() string { return filepath.Join(d.Dir, "csi.sock") }

// process returns the process of the driver, which does not run yet.
func (d servedDriver) process(t *testing.T) *kubenode.Driver {
	t.Helper()
	require.NoError(t, os.MkdirAll(d.Dir, 0o755))
	text, err := json.Marshal(d)
	require.NoError(t, err)
	return &kubenode.Driver{
		Name: d.Name, Endpoint: d.endpoint(), Args: []string{"-test.run=^TestServedDriver$", "-test.timeout=1h"},
		Env: []string{servedVariable + "=" + string(text)},
	}
}

// TestServedDriver serves the driver of another test in a process of its own, until the process is
// killed.
func TestServedDriver(t *testing.T) {
	text := os.Getenv(servedVariable)
	if text == "" {
		return
	}
	d := servedDriver{}
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	require.NoError(t, d.serve(t.Context()))
}

// serve serves a plugin with storage in directories as the driver, and registers it.
func (d servedDriver) serve(ctx context.Context) error {
	root := filepath.Join(d.Dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	host, err := volume.NewHost(ctx, root, volume.WithNodeName("node1"), volume.WithTargetDirs(d.Target))
	if err != nil {
		return err
	}
	kernel := mount.New(mount.Config{})
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel, NoAttach: true})
	listener, err := driver.Listen(ctx, d.endpoint())
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() {
		ended <- driver.Serve(ctx, listener, driver.Config{
			Name: d.Name, Version: "1", NodeID: d.Node, Plugin: plugin, Host: host, Mounter: kernel,
		})
	}()
	go func() {
		ended <- registration.Serve(ctx, registration.ServerConfig{Dir: d.Registry, Endpoint: d.endpoint()})
	}()
	return errors.Join(<-ended, errors.New("the driver has ended"))
}
