package docker

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestLife: a volume is created, mounted once for two users, and removed, with all that its plugin needs for it.
func TestLife(t *testing.T) {
	r := newFakeRig(t)
	answer, err := r.call(t.Context(), "Plugin.Activate", request{})
	require.NoError(t, err)
	require.Equal(t, []string{"VolumeDriver"}, answer.Implements)
	answer, err = r.call(t.Context(), "VolumeDriver.Capabilities", request{})
	require.NoError(t, err)
	require.Equal(t, ScopeLocal, answer.Capabilities.Scope)
	_, err = r.get("data")
	require.ErrorContains(t, err, "no such volume", "the daemon takes the volumes of the first driver that knows a name")
	require.Empty(t, r.names())

	require.NoError(t, r.create("data", map[string]string{"size": "1Gi"}))
	require.Equal(t, []string{"data"}, r.names())
	info, err := r.get("data")
	require.NoError(t, err)
	require.Empty(t, info.Mountpoint)
	require.Equal(t, map[string]any{"users": 0.0, "size": "1Gi"}, info.Status)
	created, err := time.Parse(time.RFC3339, info.CreatedAt)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), created, time.Minute)

	path, err := r.mount("data", "one")
	require.NoError(t, err)
	require.Equal(t, r.dir+"/root/plugins/volumekit.io/docker/driver/mounts/data", path)
	again, err := r.mount("data", "two")
	require.NoError(t, err)
	require.Equal(t, path, again)
	require.True(t, r.isMounted("data"))
	info, err = r.get("data")
	require.NoError(t, err)
	require.Equal(t, path, info.Mountpoint)
	require.Equal(t, 2.0, info.Status["users"])
	answer, err = r.call(t.Context(), "VolumeDriver.Path", request{Name: "data"})
	require.NoError(t, err)
	require.Equal(t, path, answer.Mountpoint)
	require.ErrorContains(t, r.remove("data"), "in use")

	require.NoError(t, r.unmount("data", "one"))
	require.True(t, r.isMounted("data"))
	require.NoError(t, r.unmount("data", "two"))
	require.False(t, r.isMounted("data"))
	require.NoDirExists(t, path)
	require.Empty(t, r.plugin.AttachedTo("data"))
	table, err := r.config.Mounter.List(t.Context())
	require.NoError(t, err)
	for _, m := range table {
		require.False(t, strings.HasPrefix(m.Mountpoint, r.dir), "left: %s", m.Mountpoint)
	}
	require.NoError(t, r.remove("data"))
	require.Empty(t, r.names())
	require.Empty(t, r.records())
	require.NoError(t, r.remove("data"), "the daemon repeats a call without an answer")
}

// TestDeadline: a call ends before the daemon gives up, and an unfinished body earlier.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mounter := mounttest.NewFake(mount.Config{})
		plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter})
		d := newTestDriver(t, Config{Plugin: plugin, Mounter: mounter})
		_, err := d.create(t.Context(), request{Name: "data"})
		require.NoError(t, err)
		plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: time.Hour})
		start, answer := time.Now(), httptest.NewRecorder()
		d.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/VolumeDriver.Mount", strings.NewReader(`{"Name": "data", "ID": "a"}`)))
		require.Equal(t, http.StatusInternalServerError, answer.Code)
		require.Contains(t, answer.Body.String(), "took too long")
		require.Less(t, time.Since(start), 2*time.Minute)
		require.GreaterOrEqual(t, time.Since(start), mountTime)
	})
	limit := bodyTime
	bodyTime = 50 * time.Millisecond
	t.Cleanup(func() { bodyTime = limit }) // after that of the rig
	r := newFakeRig(t)
	connection, err := net.Dial("unix", r.dir+"/s")
	require.NoError(t, err)
	_, err = connection.Write([]byte("POST /VolumeDriver.List HTTP/1.1\r\nHost: d\r\nContent-Length: 10\r\n\r\n{"))
	require.NoError(t, err)
	require.NoError(t, connection.SetReadDeadline(time.Now().Add(10*time.Second)))
	text, err := io.ReadAll(connection)
	require.NoError(t, err)
	require.Contains(t, string(text), "400 Bad Request")
	require.NoError(t, connection.Close())
}

// TestProgress: a receiver in the context of Serve gets the steps of calls.
func TestProgress(t *testing.T) {
	r := newFakeRig(t)
	require.NoError(t, r.create("data", nil))
	r.stop()
	reports := make(chan string, 1)
	r.steps = func(report progress.Report) {
		select {
		case reports <- report.Step + " " + report.Object:
		default:
		}
	}
	r.start()
	r.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: time.Hour, Times: 1})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.call(ctx, "VolumeDriver.Mount", request{Name: "data", ID: "a"})
		ended <- err
	}()
	require.Equal(t, "delay SetUp", <-reports)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// TestQuickRestarts: the socket is free when Serve returns, at whatever moment of its start the context ends.
func TestQuickRestarts(t *testing.T) {
	r := newFakeRig(t)
	for n := range 200 {
		time.Sleep(time.Duration(n) * 5 * time.Microsecond)
		r.restart()
	}
}

// TestSecondProcess: a driver that is served is not served a second time, and can be served after its end.
func TestSecondProcess(t *testing.T) {
	r := newFakeRig(t)
	serve := func(ctx context.Context) error {
		listener, err := Listen(ctx, r.dir+"/other")
		require.NoError(t, err)
		return Serve(ctx, listener, r.config)
	}
	require.NoError(t, r.create("data", nil)) // it serves
	require.ErrorIs(t, serve(t.Context()), errServed)
	ended, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, serve(ended), errServed)
	require.Equal(t, []string{"data"}, r.names())
	r.stop()
	ended, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.NoError(t, serve(ended))
}

// TestGrace: Serve waits for calls in flight, and then ends them.
func TestGrace(t *testing.T) {
	r := newFakeRig(t, func(c *Config) { c.GracePeriod = 50 * time.Millisecond })
	require.NoError(t, r.create("data", nil))
	r.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: time.Hour, Times: 1})
	r.plugin.Inject(volumetest.Fault{Method: volumetest.TearDown, Delay: 300 * time.Millisecond, Times: 1})
	ended := make(chan error, 1)
	go func() {
		_, err := r.call(context.Background(), "VolumeDriver.Mount", request{Name: "data", ID: "a"})
		ended <- err
	}()
	require.Eventually(t, func() bool { return r.plugin.Calls(volumetest.SetUp) == 1 }, 10*time.Second, time.Millisecond)
	r.stop()
	require.Error(t, <-ended)
	require.Equal(t, 1, r.plugin.Calls(volumetest.TearDown), "the undo has ended, too")
	require.Empty(t, r.uses())
	r.start()
	_, err := r.mount("data", "b")
	require.NoError(t, err)
}

// TestInvalidConfig: Serve names the field, and closes the listener.
func TestInvalidConfig(t *testing.T) {
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	valid := Config{Name: "driver", Plugin: plugin, Host: host, Mounter: plugin.Mounter()}
	for want, change := range map[string]func(c *Config){
		"config.name":             func(c *Config) { c.Name = "a/b" },
		"config.plugin":           func(c *Config) { c.Plugin = (*volumetest.FakePlugin)(nil) },
		"config.host":             func(c *Config) { c.Host = nil },
		"config.mounter":          func(c *Config) { c.Mounter = nil },
		"config.scope":            func(c *Config) { c.Scope = "swarm" },
		"config.size":             func(c *Config) { c.Size = -1 },
		"config.gracePeriod":      func(c *Config) { c.GracePeriod = -1 },
		"config.parameters[mode]": func(c *Config) { c.Parameters = map[string]string{"a": "b", "mode": "0700"} },
	} {
		c := valid
		change(&c)
		listener, err := Listen(t.Context(), t.TempDir()+"/s")
		require.NoError(t, err)
		err = Serve(t.Context(), listener, c)
		var failed *field.Error
		require.ErrorAs(t, err, &failed, want)
		require.Equal(t, want, failed.Field)
		require.Error(t, listener.Close(), "it is closed")
	}
	for _, socket := range []string{"", "relative", strings.Repeat("/a", 60), "/a\x00"} {
		_, err := Listen(t.Context(), socket)
		require.ErrorContains(t, err, "socket: ")
	}
}
