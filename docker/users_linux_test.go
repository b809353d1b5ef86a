package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestUsers: users are counted by ID in each order of calls, with calls that are repeated or missing, and after restarts of
// the driver.
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
