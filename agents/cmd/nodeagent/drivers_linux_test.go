package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/util/ctxend"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const driverName, diskHandle = "d.example.com", "disk"

// createDisk creates a pod with a volume of a driver, which a controller would attach.
func (c *cluster) createDisk() {
	c.Helper()
	c.bind("disk", v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: diskHandle}})
	require.NoError(c, c.Create(newPod("disk", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}})))
}

// attachDisk reports the volume of the driver as attached, as the controller that attaches does.
func (c *cluster) attachDisk() {
	c.Helper()
	patch := fmt.Appendf(nil, `{"status":{"volumesAttached":[{"name":"kubernetes.io/csi/%s^%s","devicePath":""}]}}`, driverName, diskHandle)
	_, err := c.Admin.CoreV1().Nodes().Patch(c.Context(), nodeName, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(c, ignoreNotFound(err))
}

// runDrivers runs the driver of the disk, and another one that registers itself, and ends its registration, again and
// again. They run until the context ends; wait waits for that.
func (c *cluster) runDrivers(ctx context.Context, registry string) (wait func()) {
	c.Helper()
	require.NoError(c, os.MkdirAll(registry, 0o755))
	var running sync.WaitGroup
	lasting := c.serve(ctx, &running, driverName)
	running.Go(func() {
		registration.Keep(ctx, registration.ServerConfig{Dir: registry, Endpoint: lasting, Driver: driverName})
	})
	const other = "other.example.com"
	coming := c.serve(ctx, &running, other)
	running.Go(func() {
		for ctx.Err() == nil {
			once, end := context.WithTimeout(ctx, time.Second)
			_ = registration.Serve(once, registration.ServerConfig{Dir: registry, Endpoint: coming, Driver: other, Registered: end})
			end()
			_ = ctxend.Sleep(ctx, 100*time.Millisecond)
		}
	})
	return running.Wait
}

// serve serves a driver until the context ends, and returns its socket.
func (c *cluster) serve(ctx context.Context, running *sync.WaitGroup, name string) (socket string) {
	c.Helper()
	dir, err := os.MkdirTemp("", "d") // short enough for a socket
	require.NoError(c, err)
	c.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "csi.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(c, err)
	running.Go(func() { _ = csitest.NewDriver(csitest.Config{Name: name}).Serve(ctx, listener) })
	return socket
}
