package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRun: the driver serves until its context ends, as after a signal, and the exit status tells a wrong command line from
// other errors.
func TestRun(t *testing.T) {
	dir, err := os.MkdirTemp("", "d") // short enough for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir+"/shares/a", 0o755))
	ctx, stop := context.WithCancel(t.Context())
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"-dir", dir + "/volumes", "-shares", dir + "/shares", "-state", dir + "/state", "-socket", dir + "/s"})
	}()
	daemon := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", dir+"/s")
	}}}
	call := func(name, body string) string {
		resp, err := daemon.Post("http://driver/"+name, "", strings.NewReader(body))
		if err != nil {
			return err.Error()
		}
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return string(text)
	}
	require.Eventually(t, func() bool { return strings.Contains(call("Plugin.Activate", ""), "VolumeDriver") }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, "{\"Err\":\"\"}\n", call("VolumeDriver.Create", `{"Name": "data"}`))
	require.Equal(t, "{\"Err\":\"\"}\n", call("VolumeDriver.Create", `{"Name": "share", "Opts": {"share": "`+dir+`/shares/a"}}`))
	require.Contains(t, call("VolumeDriver.Create", `{"Name": "other", "Opts": {"share": "/etc"}}`), "/etc")
	daemon.CloseIdleConnections()
	stop()
	require.Zero(t, <-status)
	for want, args := range map[int][]string{0: {"-help"}, 1: {"-dir", "/proc/missing"}, 2: {"-dir", "/x", "y"}} {
		require.Equal(t, want, run(t.Context(), args))
	}
	require.Equal(t, 2, run(t.Context(), nil))
}
