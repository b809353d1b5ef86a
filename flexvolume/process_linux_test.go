package flexvolume

import (
	"context"
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
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// driverScript is a driver whose volumes are directories in $VOLUMES, by their names. It writes its calls to $LOG.
const driverScript = `#!/bin/sh
success() { echo '{"status": "Success"}'; exit 0; }
failure() { echo '{"status": "Failure", "message": "'"$1"'"}' >&2; exit 1; }
name() { printf %s "$1" | sed 's|.*"kubernetes.io/pvOrVolumeName":"\([^"]*\)".*|\1|'; }
bind() {
	mount --bind "$VOLUMES/$(name "$2")" "$1" >/dev/null 2>&1 || failure "bind $1"
	case $2 in *'"kubernetes.io/readwrite":"ro"'*) mount -o remount,bind,ro "$1" >/dev/null 2>&1 || failure ro ;; esac
}
echo "$@" >>"$LOG"
case $1 in
init) echo '{"status": "Success", "capabilities": {"attach": ATTACH, "supportsMetrics": true}}' ;;
mountdevice) bind "$2" "$4"; success ;;
unmountdevice) umount "$2" >/dev/null 2>&1 || failure "umount $2"; success ;;
attach) : >"$VOLUMES/.$(name "$2").$3"; echo '{"status": "Success", "device": "/dev/fake"}' ;;
detach) rm -f "$VOLUMES/.$2.$3"; success ;;
isattached) [ -e "$VOLUMES/.$(name "$2").$3" ] && answer=true || answer=false; echo '{"status": "Success", "attached": '$answer'}' ;;
expandvolume) echo '{"status": "Success", "volumeNewSize": 2147483648}' ;;
MOUNT
*) echo '{"status": "Not supported"}'; exit 1 ;;
esac
`

// mountsForPods is the part of a driverScript that mounts for each pod.
const mountsForPods = `mount) bind "$2" "$3"; success ;;
unmount) umount "$2" >/dev/null 2>&1 || failure "umount $2"; success ;;`

func script(attach bool, mount string) string {
	return strings.NewReplacer("ATTACH", fmt.Sprint(attach), "MOUNT", mount).Replace(driverScript)
}

// A scriptNode has an installed driver, and directories as its volumes.
type scriptNode struct {
	*node
	drivers, volumes, log string
}

// newScriptNode installs a driver. It must run in a namespace.
func newScriptNode(t *testing.T, text string, change ...func(*Config)) *scriptNode {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := &scriptNode{drivers: dir + "/drivers", volumes: dir + "/volumes", log: dir + "/log"}
	require.NoError(t, os.Mkdir(n.volumes, 0o755))
	n.install(t, text)
	mounter := mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, mounter.Close()) })
	n.node = newNode(t, dir, mounter, New(n.config(mounter, change...)))
	return n
}

func (n *scriptNode) config(mounter mount.Interface, change ...func(*Config)) Config {
	config := Config{Driver: driverName, Dir: n.drivers, Mounter: mounter, Env: []string{"VOLUMES=" + n.volumes, "LOG=" + n.log}}
	for _, c := range change {
		c(&config)
	}
	return config
}

// executable returns the path of the driver.
func (n *scriptNode) executable() string { return n.drivers + "/example.com~fake/fake" }

// install installs a driver by rename.
func (n *scriptNode) install(t *testing.T, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(n.executable()), 0o755))
	hidden := filepath.Dir(n.executable()) + "/.fake"
	require.NoError(t, os.WriteFile(hidden, []byte(text), 0o755))
	require.NoError(t, os.Rename(hidden, n.executable()))
}

func (n *scriptNode) newVolume(t *testing.T) *volume.Spec {
	t.Helper()
	dir, err := os.MkdirTemp(n.volumes, "volume")
	require.NoError(t, err)
	return pv(filepath.Base(dir), nil)
}

// calls returns the lines of the log since the last call.
func (n *scriptNode) calls(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(n.log)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
		require.NoError(t, os.Remove(n.log))
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// TestProgramContract: volumes of an executable keep the contract.
func TestProgramContract(t *testing.T) {
	for _, attach := range []bool{false, true} {
		t.Run(fmt.Sprintf("attach=%t", attach), func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			n := newScriptNode(t, script(attach, map[bool]string{false: mountsForPods}[attach]))
			config := baseConfig()
			config.New = func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
				return New(n.config(m))
			}
			config.NewMounter = func(*testing.T) mount.Interface { return n.mounter }
			config.Spec = func(t *testing.T) *volume.Spec { return n.newVolume(t) }
			config.ReadOnlySpec = func(t *testing.T) *volume.Spec {
				spec := n.newVolume(t)
				spec.PersistentVolume.Spec.FlexVolume.ReadOnly = true
				return spec
			}
			config.Backing = func(spec *volume.Spec) string { return filepath.Join(n.volumes, spec.Name()) }
			volumetest.TestPlugin(t, config)
		})
	}
}

// TestHostileDrivers: a driver that hangs, prints garbage, or lies about mounts costs an error of the true kind, and
// leaves no mount behind that its caller does not expect.
func TestHostileDrivers(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	for name, test := range map[string]struct {
		up, down string // what the script does for mount and unmount
		text     string // of the error of SetUp
		is       error
		kind     volume.ErrorKind
	}{
		"hang":           {up: "sleep 1000", is: ErrTimeout, kind: volume.Uncertain},
		"hung child":     {up: "sleep 1000 & wait", is: ErrTimeout, kind: volume.Uncertain},
		"stopped":        {up: "kill -STOP $$", is: ErrTimeout, kind: volume.Uncertain},
		"mount and hang": {up: `bind "$2" "$3"; sleep 1000`, down: `umount "$2"; success`, is: ErrTimeout, kind: volume.Uncertain},
		"garbage":        {up: `echo '<html>'`, is: ErrBadAnswer, text: "<html>", kind: volume.Transient},
		"nothing":        {up: "exit 0", is: ErrBadAnswer, kind: volume.Transient},
		"killed":         {up: "kill -9 $$", text: "signal: killed", kind: volume.Transient},
		"wrong type":     {up: `echo '{"status": 1}'`, is: ErrBadAnswer, text: "status: wrong type", kind: volume.Transient},
		"two answers":    {up: `echo '{"status": "Success"}{"status": "Success"}'`, is: ErrBadAnswer, kind: volume.Transient},
		"much output":    {up: `head -c 100000000 /dev/zero; echo '{"status": "Success"}'`, is: ErrBadAnswer, text: "longer than 65536 bytes", kind: volume.Transient},
		"endless output": {up: "yes", is: ErrTimeout, kind: volume.Uncertain},
		"failure":        {up: "failure 'no such share'", is: ErrFailed, text: "no such share", kind: volume.Transient},
		"other status":   {up: `echo '{"status": "Perhaps", "message": "so"}'`, is: ErrFailed, text: "so", kind: volume.Transient},
		"success, exit 1": {up: `echo '{"status": "Success"}'; exit 1`, text: "exit status 1 after a success",
			kind: volume.Transient},
		"no mount":          {up: "success", is: volume.ErrNotMounted, kind: volume.Transient},
		"failure, mounted":  {up: `bind "$2" "$3"; failure late`, down: `umount "$2"; success`, is: ErrFailed, kind: volume.Transient},
		"failure, stays":    {up: `bind "$2" "$3"; failure late`, down: "success", is: ErrFailed, kind: volume.Transient},
		"failure, not down": {up: `bind "$2" "$3"; failure late`, down: "failure busy", is: ErrFailed, kind: volume.Uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			text := script(false, "mount) "+test.up+" ;;\nunmount) "+test.down+" ;;")
			n := newScriptNode(t, text, func(c *Config) { c.Timeout = 300 * time.Millisecond })
			spec := n.newVolume(t)
			// The deadline of init, which has to answer, is longer.
			n.plugin.config.Timeout = time.Minute
			_, err := n.plugin.current(t.Context())
			require.NoError(t, err)
			if errors.Is(test.is, ErrTimeout) {
				n.plugin.config.Timeout = 300 * time.Millisecond
			}
			err = n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{})
			require.Error(t, err)
			require.Equal(t, test.kind, volume.KindOf(err), "%v", err)
			require.ErrorContains(t, err, test.text)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
			require.LessOrEqual(t, len(err.Error()), 1024)
			if test.kind != volume.Uncertain {
				require.Empty(t, n.mounts(t))
				require.NoDirExists(t, n.mounterOf(t, spec).GetPath())
			}
			requireNoProcess(t, n.executable())

			n.install(t, script(false, mountsForPods)) // a new version of the driver
			n.plugin.config.Timeout = time.Minute
			require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
			require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
			require.Empty(t, n.mounts(t))
			require.NoDirExists(t, n.mounterOf(t, spec).GetPath())
		})
	}
}

// requireNoProcess requires that no process runs the executable.
func requireNoProcess(t *testing.T, executable string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, name := range lines {
		text, _ := os.ReadFile(name)
		require.NotContains(t, string(text), executable, name)
	}
}

// TestHostileUnmount: what a driver leaves mounted is unmounted, and its failures keep a mount that it keeps.
func TestHostileUnmount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	for name, test := range map[string]struct {
		down string
		kind volume.ErrorKind
		up   bool // afterwards
	}{
		"lie":             {down: "success", kind: volume.Success},
		"directory gone":  {down: `umount "$2"; rmdir "$2"; success`, kind: volume.Success},
		"failure":         {down: "failure busy", kind: volume.Transient, up: true},
		"failure, undone": {down: `umount "$2"; failure late`, kind: volume.Uncertain},
		"garbage":         {down: "echo", kind: volume.Transient, up: true},
		"hang":            {down: "sleep 1000", kind: volume.Uncertain, up: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newScriptNode(t, script(false, "mount) bind \"$2\" \"$3\"; success ;;\nunmount) "+test.down+" ;;"))
			spec := n.newVolume(t)
			require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
			if test.kind == volume.Uncertain && test.up {
				n.plugin.config.Timeout = 300 * time.Millisecond
			}
			err := n.unmounterOf(t, spec).TearDown(t.Context())
			require.Equal(t, test.kind, volume.KindOf(err), "%v", err)
			require.Equal(t, test.up, len(n.mounts(t)) == 1)
			n.plugin.config.Timeout = time.Minute
			if test.kind == volume.Uncertain && !test.up {
				require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()), "nothing is mounted, so a failure does not count")
			}
			n.install(t, script(false, mountsForPods))
			require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
			require.Empty(t, n.mounts(t))
			require.NoDirExists(t, n.mounterOf(t, spec).GetPath())
		})
	}
}

// TestContextEndsCall: a call returns soon after its context ends, with the driver killed, and the next one undoes it.
func TestContextEndsCall(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newScriptNode(t, script(false, `mount) bind "$2" "$3"; sleep 1000 ;;`+"\n"+`unmount) umount "$2"; success ;;`))
	spec := n.newVolume(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.mounterOf(t, spec).SetUp(ctx, volume.MounterArgs{}) }()
	for len(n.mounts(t)) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	n.install(t, script(false, mountsForPods))
	n.calls(t)
	require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
	requireNoProcess(t, n.executable())
	var operations []string
	for _, call := range n.calls(t) {
		operation, _, _ := strings.Cut(call, " ")
		operations = append(operations, operation)
	}
	require.Equal(t, []string{"init", "unmount", "mount"}, operations)
	require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
}

// TestDaemonOutlivesCall: a daemon of a driver that has succeeded lives on, also one that keeps the output open.
func TestDaemonOutlivesCall(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newScriptNode(t, script(false, `mount) bind "$2" "$3"; sleep 1000 & echo $! >"$LOG.pid"; success ;;`+"\n"+`unmount) kill "$(cat "$LOG.pid")"; umount "$2"; success ;;`))
	spec := n.newVolume(t)
	require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
	text, err := os.ReadFile(n.log + ".pid")
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(pid, 0))
	require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
}

// TestTrust: a driver runs only if it and its directories are root's alone.
func TestTrust(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, n *scriptNode)
		is     error
	}{
		"no directory":       {func(t *testing.T, n *scriptNode) { require.NoError(t, os.RemoveAll(n.drivers)) }, ErrNoDriver},
		"no driver":          {func(t *testing.T, n *scriptNode) { require.NoError(t, os.Remove(n.executable())) }, ErrNoDriver},
		"not executable":     {func(t *testing.T, n *scriptNode) { require.NoError(t, os.Chmod(n.executable(), 0o644)) }, ErrNoDriver},
		"group may write":    {func(t *testing.T, n *scriptNode) { require.NoError(t, os.Chmod(n.executable(), 0o775)) }, ErrUntrusted},
		"others may write":   {func(t *testing.T, n *scriptNode) { require.NoError(t, os.Chmod(n.executable(), 0o757)) }, ErrUntrusted},
		"others may replace": {func(t *testing.T, n *scriptNode) { require.NoError(t, os.Chmod(filepath.Dir(n.executable()), 0o777)) }, ErrUntrusted},
		"others may rename":  {func(t *testing.T, n *scriptNode) { require.NoError(t, os.Chmod(n.drivers, 0o1777)) }, ErrUntrusted},
		"link": {func(t *testing.T, n *scriptNode) {
			require.NoError(t, os.Rename(n.executable(), n.executable()+"-1"))
			require.NoError(t, os.Symlink("fake-1", n.executable()))
		}, ErrUntrusted},
		"directory is a link": {func(t *testing.T, n *scriptNode) {
			dir := filepath.Dir(n.executable())
			require.NoError(t, os.Rename(dir, dir+"-1"))
			require.NoError(t, os.Symlink("example.com~fake-1", dir))
		}, ErrUntrusted},
		"a directory": {func(t *testing.T, n *scriptNode) {
			require.NoError(t, os.Remove(n.executable()))
			require.NoError(t, os.Mkdir(n.executable(), 0o755))
		}, ErrNoDriver},
	} {
		t.Run(name, func(t *testing.T) {
			n := newScriptNode(t, script(false, mountsForPods))
			spec := n.newVolume(t)
			test.change(t, n)
			err := n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{})
			require.ErrorIs(t, err, test.is)
			require.Equal(t, volume.Transient, volume.KindOf(err))
			require.Equal(t, []string{""}, n.calls(t))
			require.NoError(t, os.RemoveAll(n.drivers))
			n.install(t, script(false, mountsForPods))
			require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}), "once it is trusted")
			require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
		})
	}
}

// TestOwner: a driver that belongs to another user does not run.
func TestOwner(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newScriptNode(t, script(false, mountsForPods))
	spec := n.newVolume(t)
	for _, path := range []string{n.executable(), filepath.Dir(n.executable()), n.drivers} {
		require.NoError(t, os.Chown(path, 1000, 0))
		err := n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{})
		require.ErrorIs(t, err, ErrUntrusted)
		require.ErrorContains(t, err, "the owner is user 1000")
		require.NoError(t, os.Chown(path, 0, 0))
	}
	require.Equal(t, []string{""}, n.calls(t))
}

// TestSecretsAreHidden: a Secret reaches the driver's mount alone, and no error, also of an output that is cut, of the
// undo, and of a later unmount.
func TestSecretsAreHidden(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	const shown = `{ echo hunter2-and; echo ' more'; echo "alice $3"; head -c 470 /dev/zero | tr '\0' x; echo 'hunter2-and'; } >&2; exit 1`
	for name, test := range map[string]struct {
		mount, unmount string
		isUp           bool
	}{
		"failure":   {mount: `failure "cannot log in with $3"`},
		"output":    {mount: shown},
		"cut":       {mount: `head -c 65530 /dev/zero | tr '\0' x; echo hunter2-and; exit 1`},
		"undo":      {mount: `bind "$2" "$3"; failure late`, unmount: `failure "cannot log out hunter2-and"`},
		"tear-down": {mount: `bind "$2" "$3"; success`, unmount: `failure "cannot log out hunter2-and"`, isUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newScriptNode(t, script(false, "mount) "+test.mount+" ;;\nunmount) "+test.unmount+" ;;"), func(c *Config) {
				c.Secrets = secretFunc(func(namespace, name string) (*v1.Secret, error) {
					return &v1.Secret{Type: driverName, Data: map[string][]byte{"user": []byte("alice"), "password": []byte("hunter2-and\n more")}}, nil
				})
			})
			spec := n.newVolume(t)
			spec.PersistentVolume.Spec.FlexVolume.SecretRef = &v1.SecretReference{Name: "login"}
			err := n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{})
			require.Equal(t, test.isUp, err == nil, "%v", err)
			require.Contains(t, strings.Join(n.calls(t), "\n"), `"kubernetes.io/secret/password":"aHVudGVyMi1hbmQKIG1vcmU="`)
			down := n.unmounterOf(t, spec).TearDown(t.Context())
			require.NotContains(t, strings.Join(n.calls(t), "\n"), "aHVudGVy")
			for _, err := range []error{err, down} {
				for _, part := range []string{"hunt", "aHVudGVy", "alice", "YWxpY2U"} {
					require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), part)
				}
			}
			n.install(t, script(false, mountsForPods))
			require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
		})
	}
}

// TestLinkOnPath: no driver is called with a path that leads out of the host's root.
func TestLinkOnPath(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newScriptNode(t, script(false, mountsForPods))
	spec := n.newVolume(t)
	path := n.mounterOf(t, spec).GetPath()
	outside := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(outside, spec.Name()), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Dir(path)), 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Dir(path)))
	require.Error(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
	require.Error(t, n.unmounterOf(t, spec).TearDown(t.Context()))
	for _, call := range n.calls(t) {
		require.NotContains(t, call, "mount")
	}
	require.DirExists(t, filepath.Join(outside, spec.Name()))
}

// TestFullDisk: a full disk, on which no note can be written, keeps no volume mounted.
func TestFullDisk(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newScriptNode(t, script(true, ""))
	spec := n.newVolume(t)
	disk := n.root + "/plugins"
	require.NoError(t, os.MkdirAll(disk, 0o755))
	require.NoError(t, unix.Mount("disk", disk, "tmpfs", 0, "size=64k"))
	defer func() { require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH)) }()
	m, err := n.plugin.NewDeviceMounter()
	require.NoError(t, err)
	path, err := m.GetDeviceMountPath(spec)
	require.NoError(t, err)
	require.NoError(t, m.MountDevice(t.Context(), spec, path, volume.DeviceMounterArgs{}))
	require.ErrorIs(t, os.WriteFile(disk+"/file", make([]byte, 1<<20), 0o600), unix.ENOSPC)

	u, err := n.plugin.NewDeviceUnmounter()
	require.NoError(t, err)
	require.NoError(t, u.UnmountDevice(t.Context(), path))
	require.Equal(t, []string{disk}, n.mounts(t))
	require.NoDirExists(t, path)
	require.Contains(t, n.calls(t), "unmountdevice "+path)
}
