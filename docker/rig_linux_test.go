package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// A rig is a served driver, and its daemon.
type rig struct {
	t      testing.TB
	dir    string
	config Config
	steps  func(progress.Report)  // receives the steps, or nil
	plugin *volumetest.FakePlugin // of newFakeRig
	client *http.Client
	end    context.CancelFunc
	ended  chan error
}

// newFakeRig serves a plugin with all abilities on a fake kernel.
func newFakeRig(t testing.TB, change ...func(*Config)) *rig {
	t.Helper()
	mounter := mounttest.NewFake(mount.Config{})
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter})
	scan := findMount
	findMount = func(mountIdentity) (int, error) { return 0, nil } // the machine's processes do not see the fake kernel
	t.Cleanup(func() { findMount = scan })
	r := newRig(t, func(string) Config { return Config{Plugin: plugin, Mounter: mounter} }, change...)
	r.plugin = plugin
	return r
}

// newRig serves a driver whose configuration depends on a directory.
func newRig(t testing.TB, config func(dir string) Config, change ...func(*Config)) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // short enough for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/root", 0o755))
	r := &rig{t: t, dir: dir, config: config(dir)}
	r.config.Name = "driver"
	r.config.Host, err = volume.NewHost(t.Context(), dir+"/root", volume.WithNodeName("node-1"))
	require.NoError(t, err)
	for _, c := range change {
		c(&r.config)
	}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) start() {
	r.t.Helper()
	socket := r.dir + "/s"
	listener, err := Listen(r.t.Context(), socket)
	require.NoError(r.t, err)
	ctx, end := context.WithCancel(progress.With(context.Background(), r.steps))
	r.end, r.ended = end, make(chan error, 1)
	go func() { r.ended <- Serve(ctx, listener, r.config) }()
	r.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
}

// stop ends the driver. A second call does nothing.
func (r *rig) stop() {
	r.t.Helper()
	r.end()
	if err, ok := <-r.ended; ok {
		require.NoError(r.t, err)
		close(r.ended)
	}
	r.client.CloseIdleConnections()
}

// restart ends the driver, and serves it anew.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// call makes a call as the daemon does.
func (r *rig) call(ctx context.Context, name string, q request) (answer response, err error) {
	body, err := json.Marshal(q)
	require.NoError(r.t, err)
	status, text, err := r.post(ctx, name, body)
	if err != nil {
		return answer, err
	}
	require.NoError(r.t, json.Unmarshal(text, &answer), "%s", text)
	require.Equal(r.t, status == http.StatusOK, answer.Err == "", "%s", text)
	if answer.Err != "" {
		require.LessOrEqual(r.t, len(answer.Err), 1024)
		require.NotContains(r.t, answer.Err, "\n")
		return response{}, errors.New(answer.Err)
	}
	return answer, nil
}

func (r *rig) post(ctx context.Context, name string, body []byte) (status int, text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://driver/"+name, bytes.NewReader(body))
	require.NoError(r.t, err)
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, errors.Join(err, resp.Body.Close())
}

func (r *rig) create(name string, options map[string]string) error {
	_, err := r.call(r.t.Context(), "VolumeDriver.Create", request{Name: name, Opts: options})
	return err
}

func (r *rig) mount(name, id string) (string, error) {
	answer, err := r.call(r.t.Context(), "VolumeDriver.Mount", request{Name: name, ID: id})
	return answer.Mountpoint, err
}

func (r *rig) unmount(name, id string) error {
	_, err := r.call(r.t.Context(), "VolumeDriver.Unmount", request{Name: name, ID: id})
	return err
}

func (r *rig) remove(name string) error {
	_, err := r.call(r.t.Context(), "VolumeDriver.Remove", request{Name: name})
	return err
}

func (r *rig) get(name string) (volumeInfo, error) {
	answer, err := r.call(r.t.Context(), "VolumeDriver.Get", request{Name: name})
	if err != nil {
		return volumeInfo{}, err
	}
	return *answer.Volume, nil
}

func (r *rig) names() (names []string) {
	r.t.Helper()
	answer, err := r.call(r.t.Context(), "VolumeDriver.List", request{})
	require.NoError(r.t, err)
	for _, v := range answer.Volumes {
		names = append(names, v.Name)
	}
	return names
}

// status returns the value of a key in the status of a volume.
func (r *rig) status(name, key string) any {
	r.t.Helper()
	info, err := r.get(name)
	require.NoError(r.t, err)
	return info.Status[key]
}

// isMounted reports whether a volume is mounted.
func (r *rig) isMounted(name string) bool {
	r.t.Helper()
	is, err := r.config.Mounter.IsMountPoint(r.t.Context(), r.dir+"/root/plugins/volumekit.io/docker/driver/mounts/"+name)
	return err == nil && is
}

// records returns the names of files with records.
func (r *rig) records() []string {
	r.t.Helper()
	files, err := filepath.Glob(r.dir + "/root/plugins/volumekit.io/docker/driver/volumes/*")
	require.NoError(r.t, err)
	return files
}

// age makes a user older, and restarts the driver.
func (r *rig) age(name, id string, by time.Duration) {
	r.t.Helper()
	r.stop()
	d := r.direct()
	_, use, _, err := d.store.get(name)
	require.NoError(r.t, err)
	is := use.Users[id]
	is.Since = is.Since.Add(-by)
	require.NoError(r.t, d.store.writeUsage(use.with(id, is)))
	r.start()
}

// direct returns another driver on the records of a rig.
func (r *rig) direct() *driver {
	r.t.Helper()
	d, err := newDriver(r.t.Context(), r.config)
	require.NoError(r.t, err)
	return d
}

// newTestDriver returns a driver without a socket.
func newTestDriver(t testing.TB, c Config) *driver {
	t.Helper()
	dir := t.TempDir()
	host, err := volume.NewHost(t.Context(), dir, volume.WithNodeName("node-1"))
	require.NoError(t, err)
	c.Name, c.Host = "driver", host
	d, err := newDriver(t.Context(), c)
	require.NoError(t, err)
	return d
}

// uses returns the names of files with usages.
func (r *rig) uses() []string {
	r.t.Helper()
	files, err := filepath.Glob(r.dir + "/root/plugins/volumekit.io/docker/driver/uses/*/*")
	require.NoError(r.t, err)
	return files
}

// content returns the content of the records.
func (r *rig) content() (all string) {
	r.t.Helper()
	for _, name := range append(r.records(), r.uses()...) {
		text, err := os.ReadFile(name)
		require.NoError(r.t, err)
		all += string(text)
	}
	return all
}
