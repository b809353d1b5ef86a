package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/csi/sidecar"
)

// shortDir returns a directory whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	return dir
}

// start runs the program until the end of the test, and returns the address of its endpoints.
func start(t *testing.T, o options) (address string) {
	t.Helper()
	listener, err := service.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	return startOn(t, o, listener, io.Discard)
}

func startOn(t *testing.T, o options, listener net.Listener, log io.Writer) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- workWith(ctx, o, listener, log) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return listener.Addr().String()
}

// get returns the status and the text at a path of the endpoints.
func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(text)
}

// TestNode: on a node the program registers the driver, and serves its health and metrics, without an API server.
func TestNode(t *testing.T) {
	dir := shortDir(t)
	require.NoError(t, os.Mkdir(dir+"/registry", 0o755))
	d := csitest.NewDriver(csitest.Config{Name: "d.example.com"})
	require.NoError(t, d.Listen(dir+"/csi.sock"))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	registered := make(chan string, 16)
	watcher, err := registration.New(registration.Config{Dir: dir + "/registry", Changed: func(name string) { registered <- name }})
	require.NoError(t, err)
	watching, end := context.WithCancel(context.Background())
	watched := make(chan error, 1)
	go func() { watched <- watcher.Run(watching) }()
	t.Cleanup(func() {
		end()
		<-watched
	})
	o := parse(t, "--node-only --csi-address="+dir+"/csi.sock --kubelet-registration-path="+dir+"/csi.sock --plugin-registration-path="+dir+"/registry")
	address := start(t, o)
	require.Equal(t, "d.example.com", <-registered)
	status, _ := get(t, address, "/healthz")
	require.Equal(t, http.StatusOK, status)
	d.SetReady(false)
	status, text := get(t, address, "/healthz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "not ready")
	status, _ = get(t, address, "/healthz/leader-election")
	require.Equal(t, http.StatusOK, status)
	_, text = get(t, address, "/metrics")
	require.Contains(t, text, sidecar.CallDuration)
}

// TestDriverIsMissing: the program waits for its driver, reports that it is not healthy, and ends.
func TestDriverIsMissing(t *testing.T) {
	o := parse(t, "--node-only --csi-address="+shortDir(t)+"/csi.sock --timeout=1s")
	status, _ := get(t, start(t, o), "/healthz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, time.Second, o.timeout)
}
