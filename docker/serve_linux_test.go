package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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

// TestUsers: users are counted by ID, whatever the daemon repeats, forgets or mixes up, also over restarts of the driver.
func TestUsers(t *testing.T) {
	type step struct {
		call, id string
		users    int // after the step; the volume is mounted if there are some
	}
	for name, steps := range map[string][]step{
		"two containers, one stops":      {{"mount", "a", 1}, {"mount", "b", 2}, {"unmount", "a", 1}, {"unmount", "b", 0}},
		"a copy beside a container":      {{"mount", "container", 1}, {"mount", "copy", 2}, {"unmount", "copy", 1}, {"unmount", "container", 0}},
		"a copy with the container's ID": {{"mount", "a", 1}, {"mount", "a", 1}, {"unmount", "a", 1}, {"unmount", "a", 0}, {"unmount", "a", 0}},
		"an unknown ID":                  {{"mount", "a", 1}, {"unmount", "b", 1}, {"unmount", "a", 0}},
		"unmount before mount":           {{"unmount", "a", 0}, {"mount", "a", 1}},
		"restarted daemon mounts anew":   {{"mount", "a", 1}, {"daemon", "", 1}, {"mount", "a", 1}, {"unmount", "a", 0}},
		"restarted driver":               {{"mount", "a", 1}, {"restart", "", 1}, {"mount", "b", 2}, {"unmount", "a", 1}, {"restart", "", 1}, {"unmount", "b", 0}},
		"the answer of Mount is lost":    {{"mount", "a", 1}, {"restart", "", 1}, {"mount", "a", 1}, {"unmount", "a", 0}},
		"the answer of Unmount is lost":  {{"mount", "a", 1}, {"unmount", "a", 0}, {"restart", "", 0}, {"unmount", "a", 0}},
		"again after the last":           {{"mount", "a", 1}, {"unmount", "a", 0}, {"mount", "b", 1}, {"unmount", "b", 0}},
		"the same again after the last":  {{"mount", "a", 1}, {"unmount", "a", 0}, {"mount", "a", 1}, {"unmount", "a", 0}},
		"live restore: unmounted later":  {{"mount", "a", 1}, {"restart", "", 1}, {"unmount", "a", 0}},
		"a container that never unmount": {{"mount", "lost", 1}, {"restart", "", 1}, {"mount", "a", 2}, {"unmount", "a", 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t)
			require.NoError(t, r.create("data", nil))
			for i, s := range steps {
				switch s.call {
				case "mount":
					_, err := r.mount("data", s.id)
					require.NoError(t, err)
				case "unmount":
					require.NoError(t, r.unmount("data", s.id))
				case "restart":
					r.restart()
				case "daemon": // another process calls from then on
					r.stop()
					uses := r.uses()
					text, err := os.ReadFile(uses[0])
					require.NoError(t, err)
					require.NoError(t, os.WriteFile(uses[0], []byte(strings.Replace(string(text), `"caller":"`, `"caller":"1`, 1)), 0o600))
					r.start()
				}
				require.Equal(t, float64(s.users), r.status("data", "users"), "step %d", i)
				require.Equal(t, s.users > 0, r.isMounted("data"), "step %d", i)
			}
		})
	}
}

// TestRestartOfMachine: users of an earlier start of the system do not count, nor does its mount.
func TestRestartOfMachine(t *testing.T) {
	r := newFakeRig(t)
	require.NoError(t, r.create("data", nil))
	path, err := r.mount("data", "before")
	require.NoError(t, err)
	r.stop()
	uses, err := filepath.Glob(r.dir + "/root/plugins/volumekit.io/docker/driver/uses/boot-*")
	require.NoError(t, err)
	require.Len(t, uses, 1)
	earlier := filepath.Dir(uses[0]) + "/boot-earlier"
	require.NoError(t, os.Rename(uses[0], earlier))
	for _, name := range []string{earlier + "/data.json", earlier + "/data.json.new", filepath.Dir(earlier) + "/file"} {
		require.NoError(t, os.WriteFile(name, nil, 0o600), "a loss of power may leave anything")
	}
	require.NoError(t, r.config.Mounter.Unmount(t.Context(), path))
	r.start()
	info, err := r.get("data")
	require.NoError(t, err)
	require.Empty(t, info.Mountpoint)
	require.Equal(t, 0.0, info.Status["users"])
	require.NoDirExists(t, earlier)

	_, err = r.mount("data", "after")
	require.NoError(t, err)
	require.True(t, r.isMounted("data"))
	require.NoError(t, r.unmount("data", "before"))
	require.True(t, r.isMounted("data"))
	require.NoError(t, r.unmount("data", "after"))
	require.False(t, r.isMounted("data"))
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

// TestAttachedBeforeRestart: a volume that is attached since an earlier start of the system is detached by Remove.
func TestAttachedBeforeRestart(t *testing.T) {
	r := newFakeRig(t)
	require.NoError(t, r.create("data", nil))
	path, err := r.mount("data", "before")
	require.NoError(t, err)
	attached := func() int {
		rec, _, _, err := r.direct().store.get("data")
		require.NoError(t, err)
		if rec.Volume == nil {
			return 0
		}
		spec, err := rec.spec()
		require.NoError(t, err)
		name, err := r.plugin.GetVolumeName(spec)
		require.NoError(t, err)
		return len(r.plugin.AttachedTo(name))
	}
	require.Equal(t, 1, attached())
	r.stop()
	require.NoError(t, os.RemoveAll(filepath.Dir(r.uses()[0])))
	require.NoError(t, r.config.Mounter.Unmount(t.Context(), path))
	r.start()
	require.Equal(t, 1, attached())
	require.NoError(t, r.remove("data"))
	require.Equal(t, 1, r.plugin.Calls(volumetest.Detach))
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
	r := newFakeRig(t)
	connection, err := net.Dial("unix", r.dir+"/s")
	require.NoError(t, err)
	limit := bodyTime
	bodyTime = 50 * time.Millisecond
	defer func() { bodyTime = limit }()
	_, err = connection.Write([]byte("POST /VolumeDriver.List HTTP/1.1\r\nHost: d\r\nContent-Length: 10\r\n\r\n{"))
	require.NoError(t, err)
	require.NoError(t, connection.SetReadDeadline(time.Now().Add(10*time.Second)))
	text, err := io.ReadAll(connection)
	require.NoError(t, err)
	require.Contains(t, string(text), "400 Bad Request")
	require.NoError(t, connection.Close())
}

// TestQuickRestarts: the socket is free when Serve returns, at whatever moment of its start the context ends.
func TestQuickRestarts(t *testing.T) {
	r := newFakeRig(t)
	for n := range 200 {
		time.Sleep(time.Duration(n) * 5 * time.Microsecond)
		r.restart()
	}
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

// TestFullRecords: a mount whose user cannot be recorded is undone, and an unmount counts in any case.
func TestFullRecords(t *testing.T) {
	r := newFakeRig(t)
	require.NoError(t, r.create("data", nil))
	_, err := r.mount("data", "a")
	require.NoError(t, err)
	_, err = r.mount("data", "b")
	require.NoError(t, err)
	dir := filepath.Dir(r.uses()[0])
	require.NoError(t, os.Rename(dir, dir+".moved"))
	require.Error(t, r.unmount("data", "a"))
	require.Equal(t, 1.0, r.status("data", "users"))
	_, err = r.mount("data", "c")
	require.Error(t, err)
	require.Error(t, r.unmount("data", "b"))
	require.False(t, r.isMounted("data"))
	require.NoError(t, os.Rename(dir+".moved", dir))
	require.NotEmpty(t, r.uses(), "the file is older")
	require.NoError(t, r.unmount("data", "b"))
	require.Empty(t, r.uses())
}

// direct returns another driver on the records of a rig.
func (r *rig) direct() *driver {
	r.t.Helper()
	d, err := newDriver(r.t.Context(), r.config)
	require.NoError(r.t, err)
	return d
}

// TestRemoveInUse: a user counts while it is young, and if the processes of the machine are not visible.
func TestRemoveInUse(t *testing.T) {
	r := newFakeRig(t)
	require.NoError(t, r.create("data", nil))
	_, err := r.mount("data", "lost")
	require.NoError(t, err)
	require.ErrorContains(t, r.remove("data"), "in use: by 1 users, one for 0s")
	require.Nil(t, r.status("data", "error"))

	findMount = func(mountIdentity) (int, error) { return 4711, nil }
	r.age("data", "lost", youth+time.Second)
	require.ErrorContains(t, r.remove("data"), "in use: by process 4711")
	findMount = func(mountIdentity) (int, error) { return 0, errors.New("denied") }
	require.ErrorContains(t, r.remove("data"), "in use: by 1 users (denied)")
	findMount = func(mountIdentity) (int, error) { return 0, nil }
	r.age("data", "lost", -2*time.Second)
	require.ErrorContains(t, r.remove("data"), "in use: by 1 users, one for ")
	r.age("data", "lost", time.Hour)
	_, err = r.direct().remove(t.Context(), request{Name: "data"}) // not by a socket
	require.ErrorContains(t, err, "are not visible")
	require.True(t, r.isMounted("data"))
	require.NoError(t, r.remove("data"), "no process has it among its mounts")
	require.False(t, r.isMounted("data"))
	require.Empty(t, r.names())
	require.NoError(t, r.create("data", nil))
	require.Zero(t, r.status("data", "users"), "a new volume has no user")
}

// TestHungMount: while a mount hangs, other calls answer, and the next one for the volume waits. A call whose caller has
// gone is undone.
func TestHungMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mounter := mounttest.NewFake(mount.Config{})
		plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter})
		d := newTestDriver(t, Config{Plugin: plugin, Mounter: mounter})
		for _, name := range []string{"hung", "other"} {
			_, err := d.create(t.Context(), request{Name: name})
			require.NoError(t, err)
		}
		plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: time.Hour, Times: 1})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := d.mount(ctx, request{Name: "hung", ID: "a"})
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		_, err := d.get(t.Context(), request{Name: "hung"})
		require.NoError(t, err)
		_, err = d.pathOf(t.Context(), request{Name: "hung"})
		require.NoError(t, err)
		answer, err := d.list(t.Context(), request{})
		require.NoError(t, err)
		require.Len(t, answer.Volumes, 2)
		_, err = d.mount(t.Context(), request{Name: "other", ID: "b"})
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), patience)

		waiting, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err = d.mount(waiting, request{Name: "hung", ID: "b"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2, plugin.Calls(volumetest.SetUp), "one operation for a volume, and that of another")
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		_, use, _, err := d.store.get("hung")
		require.NoError(t, err)
		require.True(t, use.isEmpty())
		_, err = d.mount(t.Context(), request{Name: "hung", ID: "c"})
		require.NoError(t, err)
	})
}

// TestCallerGone: a mount whose caller has gone before the answer is no user.
func TestCallerGone(t *testing.T) {
	mounter := mounttest.NewFake(mount.Config{})
	d := newTestDriver(t, Config{Plugin: volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter}), Mounter: mounter})
	_, err := d.create(t.Context(), request{Name: "data"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	gone := &goneAtEnd{Context: ctx, cancel: cancel, d: d}
	_, err = d.mount(gone, request{Name: "data", ID: "a"})
	require.ErrorIs(t, err, context.Canceled)
	_, use, _, err := d.store.get("data")
	require.NoError(t, err)
	require.True(t, use.isEmpty())
	is, err := mounter.IsMountPoint(t.Context(), d.path("data"))
	require.True(t, err != nil || !is)
}

// A goneAtEnd is a context that ends once the volume is mounted.
type goneAtEnd struct {
	context.Context
	cancel context.CancelFunc
	d      *driver
}

func (g *goneAtEnd) Err() error {
	if is, err := g.d.config.Mounter.IsMountPoint(context.Background(), g.d.path("data")); err == nil && is {
		g.cancel()
	}
	return g.Context.Err()
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

// TestCreateAgain: equal options change nothing, and other ones are an error that names the key.
func TestCreateAgain(t *testing.T) {
	r := newFakeRig(t)
	options := map[string]string{"size": "1Gi", "pattern": "some value"}
	require.NoError(t, r.create("data", options))
	before := r.content()
	require.NoError(t, r.create("data", options))
	for key, options := range map[string]map[string]string{
		"size":    {"size": "2Gi", "pattern": "some value"},
		"pattern": {"size": "1Gi", "pattern": "other"},
		"more":    {"size": "1Gi", "pattern": "some value", "more": "x"},
		"empty":   nil,
	} {
		err := r.create("data", options)
		require.ErrorContains(t, err, "the volume exists with another value", key)
		if options != nil {
			require.ErrorContains(t, err, "options["+key+"]")
		}
		require.NotContains(t, err.Error(), "some value")
	}
	require.Equal(t, before, r.content())
	require.Equal(t, 1, r.plugin.Calls(volumetest.Provision))
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

// TestInterruptedCreate: a volume whose creation may have begun is completed by Create, Mount or Remove; one that could
// not be created is gone.
func TestInterruptedCreate(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		next string
		left bool // the volume exists after the failed call
	}{
		"uncertain, Create": {volume.ErrUncertain, "create", true},
		"uncertain, Mount":  {volume.ErrUncertain, "mount", true},
		"uncertain, Remove": {volume.ErrUncertain, "remove", true},
		"final":             {errors.New("no"), "create", false},
		"transient":         {volume.ErrTransient, "create", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t)
			r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: test.err, Times: 1})
			require.Error(t, r.create("data", nil))
			require.Equal(t, test.left, len(r.names()) == 1)
			r.restart()
			if test.left {
				require.Equal(t, "creating", r.status("data", "state"))
			}
			switch test.next {
			case "create":
				require.NoError(t, r.create("data", nil))
				require.Nil(t, r.status("data", "state"))
			case "mount":
				_, err := r.mount("data", "a")
				require.NoError(t, err)
				require.Nil(t, r.status("data", "state"))
			case "remove":
				r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: volume.ErrUncertain, Times: 1})
				require.Error(t, r.remove("data"))
				require.NoError(t, r.remove("data"))
				require.Empty(t, r.records())
				require.Equal(t, 1, r.plugin.Calls(volumetest.Delete))
			}
		})
	}
	t.Run("cannot be created, Remove", func(t *testing.T) {
		r := newFakeRig(t)
		r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: volume.ErrUncertain, Times: 1})
		require.Error(t, r.create("data", nil))
		r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: errors.New("no"), Times: 1})
		require.NoError(t, r.remove("data"))
		require.Empty(t, r.records())
	})
}

// TestInterruptedRemove: a volume whose deletion may have begun is not mounted again, and Remove continues. Nothing was
// deleted after a transient error.
func TestInterruptedRemove(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		isReady bool
	}{"uncertain": {volume.ErrUncertain, false}, "final": {errors.New("no"), false}, "transient": {volume.ErrTransient, true}} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t)
			require.NoError(t, r.create("data", nil))
			r.plugin.Inject(volumetest.Fault{Method: volumetest.Delete, Err: test.err, Times: 1})
			require.Error(t, r.remove("data"))
			require.NotEmpty(t, r.status("data", "error"))
			r.restart()
			_, err := r.mount("data", "a")
			if test.isReady {
				require.NoError(t, err)
				require.NoError(t, r.unmount("data", "a"))
			} else {
				require.ErrorContains(t, err, "being removed")
				require.ErrorContains(t, r.create("data", nil), "being removed")
				require.Equal(t, "deleting", r.status("data", "state"))
			}
			if !test.isReady { // the deletion has begun
				r.plugin.Inject(volumetest.Fault{Method: volumetest.Delete, Err: volume.ErrTransient, Times: 1})
				require.Error(t, r.remove("data"))
				_, err := r.mount("data", "a")
				require.ErrorContains(t, err, "being removed")
			}
			require.NoError(t, r.remove("data"))
			require.Empty(t, r.records())
		})
	}
}

// TestFailedMount: a mount that fails leaves no user and no mount; one that fails beside a user leaves that.
func TestFailedMount(t *testing.T) {
	for _, method := range []volumetest.Method{volumetest.Attach, volumetest.WaitForAttach, volumetest.MountDevice, volumetest.SetUp} {
		t.Run(string(method), func(t *testing.T) {
			r := newFakeRig(t)
			require.NoError(t, r.create("data", nil))
			r.plugin.Inject(volumetest.Fault{Method: method, Err: volume.ErrTransient, Times: 1})
			_, err := r.mount("data", "a")
			require.Error(t, err)
			require.NotEmpty(t, r.status("data", "error"))
			require.False(t, r.isMounted("data"))
			require.Zero(t, r.status("data", "users"))
			_, err = r.mount("data", "a")
			require.NoError(t, err)
			require.Nil(t, r.status("data", "error"))

			r.plugin.Inject(volumetest.Fault{Method: method, Err: volume.ErrTransient, Times: 1})
			_, err = r.mount("data", "b")
			require.Error(t, err)
			require.True(t, r.isMounted("data"))
			require.Equal(t, 1.0, r.status("data", "users"))
		})
	}
}

// TestFailedUnmount: a volume that cannot be taken down has no user; the next call continues, also of the next process.
func TestFailedUnmount(t *testing.T) {
	for _, method := range []volumetest.Method{volumetest.TearDown, volumetest.UnmountDevice, volumetest.Detach} {
		for _, next := range []string{"unmount", "mount", "remove", "restart"} {
			t.Run(string(method)+", "+next, func(t *testing.T) {
				r := newFakeRig(t)
				require.NoError(t, r.create("data", nil))
				_, err := r.mount("data", "a")
				require.NoError(t, err)
				r.plugin.Inject(volumetest.Fault{Method: method, Err: volume.ErrTransient, Times: 1})
				require.Error(t, r.unmount("data", "a"))
				require.Zero(t, r.status("data", "users"))
				require.NotEmpty(t, r.status("data", "error"))
				switch next {
				case "unmount":
					require.NoError(t, r.unmount("data", "a"))
				case "mount":
					_, err := r.mount("data", "b")
					require.NoError(t, err)
					require.True(t, r.isMounted("data"))
					require.NoError(t, r.unmount("data", "b"))
				case "restart":
					r.restart()
					require.Eventually(t, func() bool { return len(r.uses()) == 0 }, 10*time.Second, time.Millisecond)
				}
				if next != "remove" {
					require.False(t, r.isMounted("data"))
					require.Empty(t, r.uses())
				}
				require.NoError(t, r.remove("data"))
				require.False(t, r.isMounted("data"))
			})
		}
	}
}

// TestBrokenRecord: an unreadable file costs its volume alone, and nothing takes its name.
func TestBrokenRecord(t *testing.T) {
	r := newFakeRig(t)
	require.NoError(t, r.create("broken", nil))
	require.NoError(t, r.create("data", nil))
	_, err := r.mount("broken", "a")
	require.NoError(t, err)
	r.stop()
	for _, file := range append(r.records()[:1], r.uses()...) {
		whole, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, text := range []string{
			"", "{", `{"version":2}`, `{"version":1,"name":"data","state":"ready"}`, `{"version":1,"name":"broken","state":"x","users":{"a":{}}}`,
			`{"version":1,"name":"broken","state":"creating","options":{"size":"x"},"users":{"a":{"mounts":-1}}}`,
		} {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			r.start()
			for _, err := range []error{r.create("broken", nil), r.unmount("broken", "a"), r.remove("broken")} {
				require.ErrorContains(t, err, "unreadable file", text)
			}
			_, err := r.get("broken")
			require.Error(t, err)
			_, err = r.mount("data", "a")
			require.NoError(t, err)
			require.NoError(t, r.unmount("data", "a"))
			r.stop()
		}
		require.NoError(t, os.WriteFile(file, whole, 0o600))
	}
	r.start()
	require.NoError(t, r.unmount("broken", "a"))
	require.NoError(t, r.remove("broken"))
}

// TestHostileRequests: a request that no daemon makes is an error, and changes nothing.
func TestHostileRequests(t *testing.T) {
	r := newFakeRig(t)
	require.NoError(t, r.create("data", nil))
	_, err := r.mount("data", "a")
	require.NoError(t, err)
	before := r.content()
	calls := []string{"Create", "Remove", "Mount", "Unmount", "Path", "Get"}
	for _, name := range []string{"", ".", "..", "../data", "a/b", "/", "-a", "a b", "a\x00", "\n", "data\n", "ä", strings.Repeat("a", 129), "mounts/../data"} {
		for _, call := range calls {
			_, err := r.call(t.Context(), "VolumeDriver."+call, request{Name: name, ID: "x"})
			require.ErrorContains(t, err, "name: ", "%s %q", call, name)
		}
	}
	for _, id := range []string{"", "a\nb", "a\x7f", strings.Repeat("i", 129)} {
		for _, call := range []string{"Mount", "Unmount"} {
			_, err := r.call(t.Context(), "VolumeDriver."+call, request{Name: "data", ID: id})
			require.ErrorContains(t, err, "id: ", "%s %q", call, id)
		}
	}
	for name, body := range map[string]string{
		"large": `{"Name": "` + strings.Repeat("a", 2<<20) + `"}`, "cut": `{"Name": "data"`, "no JSON": "Name=data",
		"options": `{"Name": "data", "Opts": {"o": "` + strings.Repeat("key=a,", 1000) + `"}}`, "another type": `{"Name": 1}`, "two": `{"Name": "x"} {"Name": "y"}`, "deep": strings.Repeat("[", 100_000),
	} {
		for _, call := range calls {
			status, text, err := r.post(t.Context(), "VolumeDriver."+call, []byte(body))
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, status, name)
			require.Less(t, len(text), 1100)
		}
	}
	status, _, err := r.post(t.Context(), "VolumeDriver.Format", []byte("{}"))
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status)
	resp, err := r.client.Get("http://driver/VolumeDriver.List")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	require.Equal(t, before, r.content())
	require.Equal(t, []string{"data"}, r.names())
}

// TestPanic: a panic of a plugin is an error of its call.
func TestPanic(t *testing.T) {
	r := newFakeRig(t, func(c *Config) { c.Share = func(string) (v1.PersistentVolumeSource, error) { panic("defect") } })
	require.ErrorContains(t, r.create("data", map[string]string{"share": "x"}), "defect: its log has the stack")
	require.NoError(t, r.create("data", nil))
	r.stop()
	r.config.Plugin = panicking{r.plugin}
	r.start()
	_, err := r.mount("data", "a")
	require.NoError(t, err)
	_, err = r.get("data")
	require.NoError(t, err, "the measurement panics in the background")
	require.ErrorContains(t, r.unmount("data", "a"), "defect: its log has the stack")
	r.restart() // takes it down in the background
}

// A panicking plugin cannot unmount.
type panicking struct{ *volumetest.FakePlugin }

func (panicking) NewUnmounterAt(string) (volume.Unmounter, error) { panic("defect") }

// TestSecrets: neither errors nor the log have the values of options whose names look secret.
func TestSecrets(t *testing.T) {
	r := newFakeRig(t)
	options := map[string]string{"apiToken": "hidden-1", "o": "username=u,password=hidden-2"}
	require.NoError(t, r.create("data", options))
	r.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: fmt.Errorf("%w: hidden-1 password=hidden-2", volume.ErrTransient), Times: 1})
	_, err := r.mount("data", "a")
	require.ErrorContains(t, err, "stripped")
	require.NotContains(t, err.Error(), "hidden-")
	require.NotContains(t, r.status("data", "error"), "hidden-")
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: errors.New("hidden-1"), Times: 1})
	require.NotContains(t, r.create("other", options).Error(), "hidden-")

	// The volume of a failed call is gone with its options.
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: volume.ErrUncertain, Times: 1})
	require.Error(t, r.create("gone", options))
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: errors.New("login with hidden-1"), Times: 1})
	_, err = r.mount("gone", "a")
	require.ErrorContains(t, err, "login with")
	require.NotContains(t, err.Error(), "hidden-")

	r = newFakeRig(t, func(c *Config) { c.Parameters = map[string]string{"adminSecret": "hidden-3"} })
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: errors.New("login with hidden-3"), Times: 1})
	err = r.create("data", nil)
	require.ErrorContains(t, err, "login with")
	require.NotContains(t, err.Error(), "hidden-")
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: volume.ErrUncertain, Times: 1})
	require.Error(t, r.create("data", nil))
	r.stop()
	r.config.Parameters = nil
	r.start()
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: errors.New("login with hidden-3"), Times: 1})
	_, err = r.mount("data", "a")
	require.ErrorContains(t, err, "login with")
	require.NotContains(t, err.Error(), "hidden-", "the record had it")
}

// TestUnprovisionable: storage that may exist is not forgotten if the plugin refuses its request by now.
func TestUnprovisionable(t *testing.T) {
	r := newFakeRig(t)
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: volume.ErrUncertain, Times: 1})
	require.Error(t, r.create("data", nil))
	r.stop()
	before := r.config.Plugin
	r.config.Plugin = refusing{r.plugin}
	r.start()
	require.Error(t, r.remove("data"))
	require.Len(t, r.records(), 1)
	r.stop()
	r.config.Plugin = before
	r.start()
	require.NoError(t, r.remove("data"))
	require.Equal(t, 1, r.plugin.Calls(volumetest.Delete))
}

// TestGlobalStorage: storage that another machine may use is not deleted because this one cannot mount it, but by Remove.
func TestGlobalStorage(t *testing.T) {
	r := newFakeRig(t, func(c *Config) { c.Scope = ScopeGlobal })
	r.stop()
	r.config.Plugin = unmountable{r.plugin}
	r.start()
	require.ErrorContains(t, r.create("data", nil), "cannot mount")
	require.Zero(t, r.plugin.Calls(volumetest.Delete))
	require.Equal(t, "creating", r.status("data", "state"))
	require.NoError(t, r.remove("data"))
	require.Equal(t, 1, r.plugin.Calls(volumetest.Delete))
	require.Empty(t, r.records())
}

// An unmountable plugin has volumes for other machines.
type unmountable struct{ *volumetest.FakePlugin }

func (unmountable) NewMounter(*volume.Spec, *v1.Pod) (volume.Mounter, error) {
	return nil, errors.New("cannot mount")
}

// A refusing plugin provisions nothing.
type refusing struct{ *volumetest.FakePlugin }

func (refusing) NewProvisioner(volume.VolumeOptions) (volume.Provisioner, error) {
	return nil, errors.New("refused")
}

// TestStorageName: names of storage are components of paths and names of objects, and differ where volumes do.
func TestStorageName(t *testing.T) {
	host := func(node string) *driver {
		host, err := volume.NewHost(t.Context(), t.TempDir(), volume.WithNodeName(types.NodeName(node)))
		require.NoError(t, err)
		return &driver{config: Config{Host: host, Scope: ScopeLocal}}
	}
	a, b := host("a"), host("b")
	seen := map[string]string{}
	for _, name := range []string{"data", "Data", "da_ta", "da-ta", "da.ta", strings.Repeat("a", 128), strings.Repeat("a", 127), "0"} {
		for node, d := range map[string]*driver{"a": a, "b": b} {
			storage := d.storageName(name)
			require.Regexp(t, `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, storage)
			require.LessOrEqual(t, len(storage), 63)
			require.Empty(t, seen[storage], "%s on %s", name, node)
			seen[storage] = name
		}
	}
	a.config.Scope, b.config.Scope = ScopeGlobal, ScopeGlobal
	require.Equal(t, a.storageName("data"), b.storageName("data"))
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

// TestShares: the forms of shares.
func TestShares(t *testing.T) {
	source, err := NFSShare("[::1]:/a/b")
	require.NoError(t, err)
	require.Equal(t, &v1.NFSVolumeSource{Server: "[::1]", Path: "/a/b"}, source.NFS)
	source, err = LocalShare("/a")
	require.NoError(t, err)
	require.Equal(t, &v1.LocalVolumeSource{Path: "/a"}, source.Local)
	for _, share := range []string{"", "a", ":/a", "server", "server:a"} {
		_, err := NFSShare(share)
		require.ErrorContains(t, err, "options[share]", share)
	}
	_, err = LocalShare("a")
	require.ErrorContains(t, err, "options[share]")
	r := newFakeRig(t)
	require.ErrorContains(t, r.create("data", map[string]string{"share": "x"}), "the driver has no shares")
	require.Empty(t, r.names())
}

// TestManyUsers: a volume has a largest number of users.
func TestManyUsers(t *testing.T) {
	mounter := mounttest.NewFake(mount.Config{})
	d := newTestDriver(t, Config{Plugin: volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter}), Mounter: mounter})
	_, err := d.create(t.Context(), request{Name: "data"})
	require.NoError(t, err)
	_, use, _, err := d.store.get("data")
	require.NoError(t, err)
	for i := range mostUsers {
		id := strings.Repeat("i", longestID-8) + fmt.Sprintf("%08d", i)
		use = use.with(id, user{Mounts: 1, Since: time.Now(), Caller: strings.Repeat("c", 64)})
	}
	require.NoError(t, d.store.writeUsage(use))
	_, err = d.mount(t.Context(), request{Name: "data", ID: "one more"})
	require.ErrorContains(t, err, "4096 users")
	again, err := newDriver(t.Context(), d.config)
	require.NoError(t, err)
	_, read, ok, err := again.store.get("data")
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, read.Users, mostUsers)
}

func FuzzParse(f *testing.F) {
	f.Add(`{"version":1,"name":"data","state":"creating","options":{"size":"1Gi"},"created":"2026-01-01T00:00:00Z"}`)
	f.Add(`{"version":1,"name":"data","up":true,"users":{"a":{"mounts":1,"since":"2026-01-01T00:00:00Z","caller":"1:2 x"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		rec, err := parse[record]("data", []byte(text), nil)
		if err == nil {
			require.Equal(t, "data", rec.Name)
			if rec.State != creating {
				_, err := rec.spec()
				require.NoError(t, err)
			}
		}
		use, err := parse[usage]("data", []byte(text), nil)
		if err == nil {
			require.Equal(t, "data", use.Name)
		}
	})
}
