package registration

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
)

func TestServerConfigIsChecked(t *testing.T) {
	valid := ServerConfig{Dir: "/registry", Endpoint: "/csi.sock", Driver: driverName}
	for field, changes := range map[string][]func(*ServerConfig){
		"Dir": {
			func(c *ServerConfig) { c.Dir = "" },
			func(c *ServerConfig) { c.Dir = "registry" },
			func(c *ServerConfig) { c.Dir = "/" + strings.Repeat("a", 90) },
		},
		"Endpoint": {
			func(c *ServerConfig) { c.Endpoint = "" },
			func(c *ServerConfig) { c.Endpoint = "unix:///csi.sock" },
			func(c *ServerConfig) { c.Endpoint = "/a/../b" },
		},
		"Address":  {func(c *ServerConfig) { c.Address = "csi.sock" }},
		"Driver":   {func(c *ServerConfig) { c.Driver = "../x" }, func(c *ServerConfig) { c.Driver = strings.Repeat("a", 64) }},
		"Versions": {func(c *ServerConfig) { c.Versions = []string{} }, func(c *ServerConfig) { c.Versions = []string{"2.0.0"} }},
	} {
		for _, change := range changes {
			config := valid
			change(&config)
			err := Serve(t.Context(), config)
			var refused *input.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, field, refused.Field)
			require.Equal(t, volume.Final, volume.KindOf(err))
		}
	}
}

// TestServeReplacesStaleSocket: also one that no process serves any more; but no other file.
func TestServeReplacesStaleSocket(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.sockets, driverName+"-reg.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())
	watcher, _ := w.watch()
	stop := w.serve(w.driver("node-1"))
	w.waitFor(watcher, driverName)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	stop()
	require.NoFileExists(t, path)

	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	err = Serve(t.Context(), ServerConfig{Dir: w.sockets, Endpoint: "/csi.sock", Driver: driverName})
	require.ErrorContains(t, err, "not a socket")
	require.FileExists(t, path)
	require.NoError(t, os.Remove(path))
	entries, err := os.ReadDir(w.sockets)
	require.NoError(t, err)
	require.Empty(t, entries, "no temporary socket is left")
}

// TestServeWithoutDirectory: the error has the cause.
func TestServeWithoutDirectory(t *testing.T) {
	err := Serve(t.Context(), ServerConfig{Dir: "/no-such-directory", Endpoint: "/csi.sock", Driver: driverName})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestServeEndsAfterRefusal: Serve returns the reason of the agent, and removes its socket.
func TestServeEndsAfterRefusal(t *testing.T) {
	w := newWorld(t)
	w.watch()
	endpoint := filepath.Join(w.dir, "missing.sock")
	err := Serve(t.Context(), ServerConfig{Dir: w.sockets, Endpoint: endpoint, Driver: driverName})
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, driverName, refused.Driver)
	require.ErrorContains(t, err, "registration of driver test.csi.example: refused: stat "+endpoint+": no such file or directory")
	entries, err := os.ReadDir(w.sockets)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestServeEndsBothWays: a refusal is no error if ctx ends, since the driver may have ended with ctx.
func TestServeEndsBothWays(t *testing.T) {
	w := newWorld(t)
	reported, release := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, ServerConfig{Dir: w.sockets, Endpoint: "/csi.sock", Driver: driverName, Registered: func() {
			close(reported)
			<-release
		}})
	}()
	socket := filepath.Join(w.sockets, driverName+"-reg.sock")
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	agent := registerapi.NewRegistrationClient(conn)
	go func() {
		_, _ = agent.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{PluginRegistered: true})
	}()
	<-reported
	_, err = agent.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{Error: "the driver has ended"})
	require.NoError(t, err)
	// Serve waits for the end of the first call.
	require.Eventually(t, func() bool {
		_, err := agent.GetInfo(t.Context(), &registerapi.InfoRequest{}, grpc.WaitForReady(false))
		return err != nil
	}, time.Minute, time.Millisecond)
	cancel()
	close(release)
	require.NoError(t, <-ended)
}

// TestServeAsksForTheName: the driver names itself, as soon as it serves.
func TestServeAsksForTheName(t *testing.T) {
	w := newWorld(t)
	watcher, _ := w.watch()
	endpoint := w.driver("node-1")
	w.serve(endpoint, func(c *ServerConfig) { c.Driver = "" })
	w.waitFor(watcher, driverName)

	bad := w.serveDriver("bad.sock", &testDriver{name: "../x"})
	err := Serve(t.Context(), ServerConfig{Dir: w.sockets, Endpoint: endpoint, Address: bad})
	require.ErrorAs(t, err, new(*input.Error))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, Serve(ctx, ServerConfig{Dir: w.sockets, Endpoint: endpoint, Address: "/none"}))
}

func TestRefusedErrorIsShort(t *testing.T) {
	err := &RefusedError{Driver: driverName, Reason: strings.Repeat("why", 1<<20)}
	require.Less(t, len(err.Error()), 1024)
}

// TestServeLeavesTheSocketOfAnother: the end of an older process does not unregister the newer one.
func TestServeLeavesTheSocketOfAnother(t *testing.T) {
	w := newWorld(t)
	watcher, _ := w.watch()
	stopOld := w.serve(w.driver("old"))
	require.Equal(t, "old", w.waitFor(watcher, driverName).NodeID)
	stopNew := w.serve(w.driver("new"))
	w.waitUntil(func() bool { return w.cluster.nodeID(driverName) == "new" })
	stopOld()
	path := filepath.Join(w.sockets, driverName+"-reg.sock")
	_, err := os.Lstat(path)
	require.NoError(t, err)
	stopNew()
	_, err = os.Lstat(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestRemovedSocketComesBack: a driver whose socket another process removes, alone or with the directory, is registered
// again.
func TestRemovedSocketComesBack(t *testing.T) {
	w := newWorld(t)
	watcher, _ := w.watch()
	w.serve(w.driver("node-1"))
	w.waitFor(watcher, driverName)
	for name, remove := range map[string]func() error{
		"socket":    func() error { return os.Remove(filepath.Join(w.sockets, driverName+"-reg.sock")) },
		"directory": func() error { return os.RemoveAll(w.sockets) }, // the watcher makes it again
	} {
		before := w.cluster.count()
		require.NoError(t, remove(), name)
		w.waitUntil(func() bool { return w.cluster.count() >= before+2 && w.cluster.nodeID(driverName) == "node-1" })
		w.waitFor(watcher, driverName)
	}
}
