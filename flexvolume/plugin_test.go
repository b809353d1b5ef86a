package flexvolume

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk/disktest"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// newFakeNode returns a node with a fake kernel.
func newFakeNode(t *testing.T, d *fakeDriver, change ...func(*Config)) *node {
	t.Helper()
	if d.mounter == nil {
		d.mounter = mounttest.NewFake(mount.Config{})
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return newNode(t, dir, d.mounter, d.plugin(change...))
}

// TestOptions: a call has the options of the volume, the pod and the Secret, and the names of a kubelet.
func TestOptions(t *testing.T) {
	d := newFakeDriver(t, nil)
	n := newFakeNode(t, d, func(c *Config) {
		c.Secrets = secretFunc(func(namespace, name string) (*v1.Secret, error) {
			return &v1.Secret{Type: driverName, Data: map[string][]byte{"in": []byte(namespace + "/" + name)}}, nil
		})
	})
	spec := d.volume(t)
	flex := spec.PersistentVolume.Spec.FlexVolume
	flex.FSType, flex.Options, flex.SecretRef = "ext4", map[string]string{"share": `a "b"`}, &v1.SecretReference{Name: "s"}
	spec.ReadOnly = true
	group := int64(42)
	require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{FsGroup: &group}))
	last := d.calls[len(d.calls)-1]
	operation, rest, _ := strings.Cut(last, " ")
	require.Equal(t, "mount", operation)
	dir, text, _ := strings.Cut(rest, " ")
	require.Equal(t, filepath.Join(n.root, "pods/uid/volumes/example.com~fake", spec.Name()), dir)
	var options map[string]string
	require.NoError(t, json.Unmarshal([]byte(text), &options))
	require.Equal(t, map[string]string{
		"share": `a "b"`, "kubernetes.io/fsType": "ext4", "kubernetes.io/readwrite": "ro", "kubernetes.io/pvOrVolumeName": spec.Name(),
		"kubernetes.io/mountsDir": filepath.Join(n.root, "plugins/kubernetes.io/flexvolume/example.com/fake/mounts"),
		"kubernetes.io/fsGroup":   "42", "kubernetes.io/mounterArgs.FsGroup": "42",
		"kubernetes.io/pod.name": "pod", "kubernetes.io/pod.namespace": "ns", "kubernetes.io/pod.uid": "uid",
		"kubernetes.io/serviceAccount.name": "account", "kubernetes.io/secret/in": "bnMvcw==", // ns/s
	}, options)
}

// TestSecrets: a Secret that is missing, of another type, or without a getter is refused before a call.
func TestSecrets(t *testing.T) {
	for name, test := range map[string]struct {
		secrets SecretGetter
		kind    volume.ErrorKind
		text    string
	}{
		"no getter": {nil, volume.Final, "secret other/login without Config.Secrets"},
		"missing": {secretFunc(func(string, string) (*v1.Secret, error) { return nil, os.ErrNotExist }),
			volume.Transient, "secret other/login"},
		"nil": {secretFunc(func(string, string) (*v1.Secret, error) { return nil, nil }), volume.Transient, "secret other/login"},
		"another type": {secretFunc(func(string, string) (*v1.Secret, error) {
			return &v1.Secret{Type: "Opaque", Data: map[string][]byte{"password": []byte("hunter2")}}, nil
		}), volume.Transient, "must be the driver's name"},
		"too long": {secretFunc(func(string, string) (*v1.Secret, error) {
			return &v1.Secret{Type: driverName, Data: map[string][]byte{"key": make([]byte, 200_000)}}, nil
		}), volume.Transient, "must be at most 131071 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFakeDriver(t, nil)
			n := newFakeNode(t, d, func(c *Config) { c.Secrets = test.secrets })
			spec := d.volume(t)
			spec.PersistentVolume.Spec.FlexVolume.SecretRef = &v1.SecretReference{Name: "login", Namespace: "other"}
			err := n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{})
			require.ErrorContains(t, err, test.text)
			require.Equal(t, test.kind, volume.KindOf(err), "%v", err)
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, d.record(), "mount")
			require.NoDirExists(t, n.mounterOf(t, spec).GetPath())
		})
	}
}

// TestDefaults: for an operation that the driver does not have, the plugin formats, mounts or binds itself. It calls the
// operation once for each version of the driver.
func TestDefaults(t *testing.T) {
	d := newFakeDriver(t, mounttest.NewFake(mount.Config{}))
	d.attach = true
	d.lacks = []string{"mount", "unmount", "mountdevice", "unmountdevice", "attach", "detach", "isattached", "waitforattach", "expandvolume", "expandfs"}
	machine := disktest.NewMachine()
	machine.AddDisk("/dev/vdb", 1<<30)
	n := newFakeNode(t, d, func(c *Config) { c.Disks = machine.Disks(d.mounter) })
	spec := d.volume(t)
	attacher, err := n.plugin.newAttacher()
	require.NoError(t, err)
	for range 2 {
		path, err := attacher.Attach(t.Context(), spec, "node-1")
		require.NoError(t, err)
		require.Empty(t, path)
		path, err = attacher.WaitForAttach(t.Context(), spec, "/dev/vdb", nil)
		require.NoError(t, err)
		require.Equal(t, "/dev/vdb", path)
		attached, err := attacher.VolumesAreAttached(t.Context(), []*volume.Spec{spec}, "node-1")
		require.NoError(t, err)
		require.Equal(t, map[*volume.Spec]bool{spec: true}, attached)

		device, err := n.plugin.deviceMounter()
		require.NoError(t, err)
		at, err := device.GetDeviceMountPath(spec)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(n.root, "plugins/kubernetes.io/flexvolume/example.com/fake/mounts", spec.Name()), at)
		mounter := n.mounterOf(t, spec)
		err = mounter.SetUp(t.Context(), volume.MounterArgs{})
		require.ErrorIs(t, err, volume.ErrNotMounted)
		require.Equal(t, volume.Transient, volume.KindOf(err))
		require.NoError(t, device.MountDevice(t.Context(), spec, at, volume.DeviceMounterArgs{}), "no device, nothing to mount")
		require.NoDirExists(t, at)
		require.NoError(t, device.MountDevice(t.Context(), spec, at, volume.DeviceMounterArgs{DevicePath: "/dev/vdb"}))
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
		require.Equal(t, []string{at, mounter.GetPath()}, n.mounts(t))

		machine.AddDisk("/dev/vdb", 2<<30)
		result, err := n.plugin.ExpandVolumeDevice(t.Context(), volume.ExpandRequest{Spec: spec, NewSize: resource.MustParse("2Gi")})
		require.NoError(t, err)
		require.Equal(t, volume.ExpandResult{Size: resource.MustParse("2Gi"), NodeExpansionRequired: true}, result)

		require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
		require.NoError(t, device.UnmountDevice(t.Context(), at))
		require.Empty(t, n.mounts(t))
		require.NoError(t, attacher.Detach(t.Context(), volume.DetachRequest{VolumeName: spec.Name(), Node: "node-1"}))
	}
	want := []string{"init", "attach", "waitforattach", "isattached", "mount", "mountdevice", "expandvolume", "unmount", "unmountdevice", "detach"}
	require.Equal(t, want, d.record(), "each operation once")
	d.version.inode++
	_, err = attacher.Attach(t.Context(), spec, "node-1")
	require.NoError(t, err)
	require.Equal(t, []string{"init", "attach"}, d.record(), "another version of the driver")
}

// TestGrow: without expandfs the plugin grows the file system of the device mount.
func TestGrow(t *testing.T) {
	d := newFakeDriver(t, mounttest.NewFake(mount.Config{}))
	d.attach, d.lacks = true, []string{"mountdevice", "mount"}
	machine := disktest.NewMachine()
	machine.AddDisk("/dev/vdb", 1<<30)
	n := newFakeNode(t, d, func(c *Config) { c.Disks = machine.Disks(d.mounter) })
	spec := d.volume(t)
	device, err := n.plugin.deviceMounter()
	require.NoError(t, err)
	at, err := device.GetDeviceMountPath(spec)
	require.NoError(t, err)
	require.NoError(t, device.MountDevice(t.Context(), spec, at, volume.DeviceMounterArgs{DevicePath: "/dev/vdb"}))
	machine.Resize("/dev/vdb", 2<<30)
	req := volume.NodeResizeOptions{Spec: spec, NewSize: resource.MustParse("2Gi"), DevicePath: "/dev/vdb", DeviceMountPath: at}
	done, err := n.plugin.NodeExpand(t.Context(), req)
	require.NoError(t, err)
	require.True(t, done)
	req.NewSize = resource.MustParse("3Gi")
	done, err = n.plugin.NodeExpand(t.Context(), req)
	require.NoError(t, err)
	require.False(t, done, "the device is smaller")
	req.DevicePath = ""
	_, err = n.plugin.NodeExpand(t.Context(), req)
	require.ErrorIs(t, err, volume.ErrNotSupported)
	d.init, d.version.inode = `{"status": "Success", "capabilities": {"requiresFSResize": false}}`, 1
	_, err = n.plugin.NodeExpand(t.Context(), req)
	require.ErrorIs(t, err, volume.ErrNotSupported)
}

// TestInit: omitted capabilities have the kubelet's defaults. The error of init is that of all calls that wait for it, and
// a later call repeats init.
func TestInit(t *testing.T) {
	d := newFakeDriver(t, nil)
	n := newFakeNode(t, d)
	spec := d.volume(t)
	for _, text := range []string{`{"status": "Success"}`, `{"Status": "Success", "Capabilities": {"fsGroup": true}}`} {
		d.init = text
		d.version.inode++
		got, err := n.plugin.current(t.Context())
		require.NoError(t, err)
		require.Equal(t, capabilities{Attach: true, SELinuxRelabel: true, FSGroup: true, RequiresFSResize: true}, got.capabilities)
		can, err := n.plugin.CanAttach(t.Context(), spec)
		require.NoError(t, err)
		require.True(t, can)
	}
	require.Equal(t, volume.Attributes{Managed: true, SELinuxRelabel: true}, n.mounterOf(t, spec).GetAttributes())
	d.init = `{"status": "Success", "capabilities": {"fsGroup": false, "selinuxRelabel": false}}`
	d.version.inode++
	_, err := n.plugin.current(t.Context())
	require.NoError(t, err)
	require.Equal(t, volume.Attributes{}, n.mounterOf(t, spec).GetAttributes())
	d.version.inode++
	for _, text := range []string{`{"status": "Failure", "message": "no daemon"}`, `{"status": "Not supported"}`, ``, `{"status": "Success", "capabilities": null}`} {
		d.init = text
		d.record()
		if text == "" {
			d.before = func(context.Context, []string) (string, error) { return " ", nil }
		}
		for range 2 {
			_, err := n.plugin.CanAttach(t.Context(), spec)
			require.Error(t, err, text)
			require.Equal(t, volume.Transient, volume.KindOf(err))
			require.ErrorContains(t, err, "driver example.com/fake: init: ")
		}
		require.Equal(t, []string{"init", "init"}, d.record(), text)
		d.before = nil
	}
	d.init = ""
	d.missing = ErrNoDriver
	_, err = n.plugin.CanAttach(t.Context(), spec)
	require.ErrorIs(t, err, ErrNoDriver)
}

// TestReadOnly: a read-only volume is read-only, also if the driver ignores the option, and if a kubelet has mounted it. A
// volume that is set up does not change.
func TestReadOnly(t *testing.T) {
	d := newFakeDriver(t, mounttest.NewFake(mount.Config{}))
	n := newFakeNode(t, d)
	spec := d.volume(t)
	path := n.mounterOf(t, spec).GetPath()
	d.before = func(ctx context.Context, args []string) (string, error) {
		if args[0] != "mount" {
			return "", nil
		}
		return `{"status": "Success"}`, d.mounter.Mount(ctx, mount.Request{Source: d.dir, Target: args[1]})
	}
	isReadOnly := func() bool {
		table, err := n.mounter.List(t.Context())
		require.NoError(t, err)
		at, ok := mount.Table(table).At(path)
		require.True(t, ok)
		return at.Flags&mount.ReadOnly != 0
	}
	for _, readOnly := range []bool{false, true} {
		spec.ReadOnly = readOnly
		for range 2 {
			require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{ReadOnly: true}))
			require.Equal(t, readOnly, isReadOnly(), "a pod that only reads")
		}
		spec.ReadOnly = !readOnly
		err := n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{})
		require.ErrorIs(t, err, volume.ErrAlreadyMounted)
		require.Equal(t, volume.Final, volume.KindOf(err))
		require.Equal(t, readOnly, isReadOnly())
		require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
	}
	require.NoError(t, os.MkdirAll(path, 0o750))
	require.NoError(t, d.mounter.Mount(t.Context(), mount.Request{Source: d.dir, Target: path}))
	spec.ReadOnly = true
	require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{IsRemount: true}))
	require.True(t, isReadOnly(), "of a kubelet")
	found, err := n.plugin.ConstructVolumeSpec(t.Context(), spec.Name(), path)
	require.NoError(t, err)
	require.True(t, found.Spec.IsReadOnly())
}

// TestDeviceReadOnly: a device mount is for readers or for writers, as a manager expects; that of a kubelet stays as it is.
func TestDeviceReadOnly(t *testing.T) {
	d := newFakeDriver(t, mounttest.NewFake(mount.Config{}))
	d.attach = true
	n := newFakeNode(t, d)
	spec := d.volume(t)
	device, err := n.plugin.deviceMounter()
	require.NoError(t, err)
	at, err := device.GetDeviceMountPath(spec)
	require.NoError(t, err)
	for _, readOnly := range []bool{false, true} {
		spec.ReadOnly = readOnly
		for range 2 {
			require.NoError(t, device.MountDevice(t.Context(), spec, at, volume.DeviceMounterArgs{}))
		}
		spec.ReadOnly = !readOnly
		err = device.MountDevice(t.Context(), spec, at, volume.DeviceMounterArgs{})
		require.ErrorIs(t, err, volume.ErrAlreadyMounted)
		require.NoError(t, device.UnmountDevice(t.Context(), at))
	}
	require.NoError(t, os.MkdirAll(at, 0o750))
	require.NoError(t, d.mounter.Mount(t.Context(), mount.Request{Source: d.dir, Target: at}))
	for _, readOnly := range []bool{false, true} {
		spec.ReadOnly = readOnly
		require.NoError(t, device.MountDevice(t.Context(), spec, at, volume.DeviceMounterArgs{}))
	}
	table, err := n.mounter.List(t.Context())
	require.NoError(t, err)
	info, ok := mount.Table(table).At(at)
	require.True(t, ok)
	require.Zero(t, info.Flags&mount.ReadOnly)
}

// TestInterrupted: after a mount or an unmount that did not end with an answer the driver unmounts before it mounts,
// whether a mount is there or not. A note of an earlier start of the system is ignored.
func TestInterrupted(t *testing.T) {
	for name, test := range map[string]struct {
		operation string // that is killed
		effect    bool   // before the kill
		noMount   bool   // the directory is there, and no mount
		boot      string // of the note
		want      []string
	}{
		"mount, mounted":        {"mount", true, false, "", []string{"unmount", "mount"}},
		"mount, not mounted":    {"mount", false, false, "", []string{"unmount", "mount"}},
		"unmount, mounted":      {"unmount", false, false, "", []string{"unmount", "mount"}},
		"unmount, not mounted":  {"unmount", true, false, "", []string{"unmount", "mount"}},
		"unmount without mount": {"unmount", false, true, "", []string{"unmount", "mount"}},
		"before a restart":      {"mount", false, false, "earlier", []string{"mount"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFakeDriver(t, mounttest.NewFake(mount.Config{}))
			n := newFakeNode(t, d)
			spec := d.volume(t)
			switch {
			case test.noMount:
				require.NoError(t, os.MkdirAll(n.mounterOf(t, spec).GetPath(), 0o750))
			case test.operation == "unmount":
				require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
			}
			d.before = func(ctx context.Context, args []string) (string, error) {
				if args[0] != test.operation {
					return "", nil
				}
				if test.effect {
					_, err := d.answer(ctx, args)
					require.NoError(t, err)
				}
				return "", context.Canceled
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			run := n.plugin.run
			n.plugin.run = func(ctx context.Context, path string, args, env []string) (programOutput, error) {
				output, err := run(ctx, path, args, env)
				if args[0] == test.operation {
					cancel()
				}
				return output, err
			}
			var err error
			if test.operation == "mount" {
				err = n.mounterOf(t, spec).SetUp(ctx, volume.MounterArgs{})
			} else {
				err = n.unmounterOf(t, spec).TearDown(ctx)
			}
			require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
			d.before, n.plugin.run = nil, run
			d.record()
			n.plugin = d.plugin()
			require.NoError(t, n.plugin.Init(t.Context(), n.host))
			if test.boot != "" {
				n.plugin.boot = test.boot
			}
			require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
			require.Equal(t, append([]string{"init"}, test.want...), d.record())
			require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
			require.Empty(t, d.record())
			require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
			require.Empty(t, n.mounts(t))
		})
	}
}

// TestNotStarted: a driver that did not start leaves the volume set up, and a driver that reports a failure, too.
func TestNotStarted(t *testing.T) {
	for name, answer := range map[string]string{"not started": "", "failure": `{"status": "Failure"}`} {
		d := newFakeDriver(t, mounttest.NewFake(mount.Config{}))
		n := newFakeNode(t, d)
		spec := d.volume(t)
		require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
		d.before = func(context.Context, []string) (string, error) {
			if answer == "" {
				return "", &notStartedError{errors.New("no memory")}
			}
			return answer, nil
		}
		err := n.unmounterOf(t, spec).TearDown(t.Context())
		require.Equal(t, volume.Transient, volume.KindOf(err), "%s: %v", name, err)
		d.record()
		require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
		require.Empty(t, d.record(), name)
	}
}

// TestUnkillable: a driver that the kernel does not end costs its own volume alone, and each call ends at its deadline.
func TestUnkillable(t *testing.T) {
	d := newFakeDriver(t, mounttest.NewFake(mount.Config{}))
	n := newFakeNode(t, d)
	spec, other := d.volume(t), d.volume(t)
	_, err := n.plugin.current(t.Context())
	require.NoError(t, err)
	n.plugin.config.Timeout = 50 * time.Millisecond
	end := make(chan struct{})
	var hung atomic.Int32
	d.before = func(_ context.Context, args []string) (string, error) {
		if strings.Contains(strings.Join(args, " "), spec.Name()) {
			hung.Add(1)
			<-end
		}
		return "", nil
	}
	for i, want := range []error{ErrTimeout, errEarlierCall, errEarlierCall} {
		err := n.mounterOf(t, spec).SetUp(context.Background(), volume.MounterArgs{})
		require.ErrorIs(t, err, want)
		require.Equal(t, volume.Uncertain, volume.KindOf(err), "call %d: %v", i, err)
		a, err := n.plugin.newAttacher()
		require.NoError(t, err)
		_, err = a.Attach(context.Background(), spec, "node")
		require.ErrorIs(t, err, want)
		require.Equal(t, i == 0, volume.KindOf(err) == volume.Uncertain, "the second process was not started")
	}
	require.Equal(t, int32(2), hung.Load(), "one process for the mount, and one to attach")
	n.plugin.config.Timeout = time.Minute
	require.NoError(t, n.mounterOf(t, other).SetUp(t.Context(), volume.MounterArgs{}))
	close(end)
	d.before = nil
	require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
}

// TestInitOfOthers: callers that wait for an init share its failure, but not the end of another caller's context.
func TestInitOfOthers(t *testing.T) {
	for name, answer := range map[string]string{"failure": `{"status": "Failure"}`, "context": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newFakeDriver(t, nil)
				n := newFakeNode(t, d)
				end := make(chan struct{})
				d.before = func(ctx context.Context, _ []string) (string, error) {
					if len(d.calls) > 1 {
						return "", nil
					}
					<-end
					return answer, ctx.Err()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first, second := make(chan error, 1), make(chan error, 1)
				go func() { _, err := n.plugin.current(ctx); first <- err }()
				synctest.Wait()
				go func() { _, err := n.plugin.current(t.Context()); second <- err }()
				synctest.Wait()
				if answer == "" {
					cancel()
				}
				close(end)
				require.Error(t, <-first)
				err := <-second
				if answer == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, ErrFailed)
				require.Equal(t, []string{"init"}, d.record())
			})
		})
	}
}

// TestGroup: the files of a mounted volume are given to the pod's group, unless the driver does that; those of a directory
// without a mount stay.
func TestGroup(t *testing.T) {
	for name, test := range map[string]struct {
		init    string
		mounts  bool
		changed bool
	}{
		"the plugin's":    {"", true, true},
		"the driver's":    {`{"status": "Success", "capabilities": {"attach": false, "fsGroup": false}}`, true, false},
		"without a mount": {"", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFakeDriver(t, mounttest.NewFake(mount.Config{}))
			d.init = test.init
			n := newFakeNode(t, d)
			spec := d.volume(t)
			path := n.mounterOf(t, spec).GetPath()
			require.NoError(t, os.MkdirAll(path, 0o700)) // a fake mount shows the directory
			if !test.mounts {
				d.before = func(_ context.Context, args []string) (string, error) {
					return map[string]string{"mount": `{"status": "Success"}`}[args[0]], nil
				}
			}
			group := int64(os.Getegid())
			err := n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{FsGroup: &group})
			require.Equal(t, test.mounts, err == nil, "%v", err)
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, test.changed, info.Mode()&os.ModeSetgid != 0)
		})
	}
}

// TestMetrics: only a driver with the capability has its volumes measured.
func TestMetrics(t *testing.T) {
	d := newFakeDriver(t, mounttest.NewFake(mount.Config{}))
	d.init = `{"status": "Success", "capabilities": {"attach": false}}`
	n := newFakeNode(t, d)
	spec := d.volume(t)
	_, err := n.mounterOf(t, spec).(volume.MetricsProvider).GetMetrics(t.Context())
	require.ErrorIs(t, err, volume.ErrNotMounted)
	require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
	_, err = n.mounterOf(t, spec).(volume.MetricsProvider).GetMetrics(t.Context())
	require.ErrorIs(t, err, volume.ErrNotSupported)
}

// TestExpansion: an expansion without effect is no success.
func TestExpansion(t *testing.T) {
	d := newFakeDriver(t, nil)
	n := newFakeNode(t, d)
	req := volume.ExpandRequest{Spec: d.volume(t), NewSize: resource.MustParse("2Gi"), OldSize: resource.MustParse("1Gi")}
	answer := `{"status": "Success", "volumeNewSize": 1073741824}`
	d.before = func(_ context.Context, args []string) (string, error) {
		return map[string]string{"expandvolume": answer}[args[0]], nil
	}
	_, err := n.plugin.ExpandVolumeDevice(t.Context(), req)
	require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
	answer = `{"status": "Success"}`
	result, err := n.plugin.ExpandVolumeDevice(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, volume.ExpandResult{Size: req.NewSize, NodeExpansionRequired: true}, result)
	d.init = `{"status": "Success", "capabilities": {"requiresFSResize": false}}`
	d.version.inode++
	result, err = n.plugin.ExpandVolumeDevice(t.Context(), req)
	require.NoError(t, err)
	require.False(t, result.NodeExpansionRequired)
	answer = `{"status": "Not supported"}`
	_, err = n.plugin.ExpandVolumeDevice(t.Context(), req)
	require.ErrorIs(t, err, volume.ErrNotSupported)
}

// TestWaitForAttach: the call that waits has ten minutes, and the others the configured time.
func TestWaitForAttach(t *testing.T) {
	d := newFakeDriver(t, nil)
	n := newFakeNode(t, d, func(c *Config) { c.Timeout = time.Minute })
	spec := d.volume(t)
	var left time.Duration
	d.before = func(ctx context.Context, _ []string) (string, error) {
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		left = time.Until(deadline)
		return "", nil
	}
	a, err := n.plugin.newAttacher()
	require.NoError(t, err)
	_, err = a.WaitForAttach(t.Context(), spec, "/dev/x", nil)
	require.NoError(t, err)
	require.Greater(t, left, time.Minute)
	_, err = a.Attach(t.Context(), spec, "node")
	require.NoError(t, err)
	require.LessOrEqual(t, left, time.Minute)
}

// TestBadAnswers: an answer with values that no program can use is none.
func TestBadAnswers(t *testing.T) {
	for _, text := range []string{
		`{"status": "Success", "device": "/dev/\u0000"}`, `{"status": "Success", "device": "` + strings.Repeat("x", 4096) + `"}`,
		`{"status": "Success", "volumeNewSize": -1}`, `{"status": "Success", "capabilities": null}`,
	} {
		var output programOutput
		_, _ = output.stdout.Write([]byte(text))
		_, err := parseAnswer(output)
		require.ErrorIs(t, err, ErrBadAnswer, text)
	}
}

// TestNoDriver: without the driver a volume that is mounted stays mounted, and a directory without a mount is removed.
func TestNoDriver(t *testing.T) {
	d := newFakeDriver(t, nil)
	n := newFakeNode(t, d)
	spec := d.volume(t)
	require.NoError(t, n.mounterOf(t, spec).SetUp(t.Context(), volume.MounterArgs{}))
	d.missing = ErrNoDriver
	err := n.unmounterOf(t, spec).TearDown(t.Context())
	require.ErrorIs(t, err, ErrNoDriver)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.Len(t, n.mounts(t), 1)
	d.missing = nil
	require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
	d.missing = ErrNoDriver
	path := n.mounterOf(t, spec).GetPath()
	require.NoError(t, os.MkdirAll(path, 0o750))
	require.NoError(t, n.unmounterOf(t, spec).TearDown(t.Context()))
	require.NoDirExists(t, path)
}

// TestInvalidConfig: Init refuses a configuration before it changes something.
func TestInvalidConfig(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	m := mounttest.NewFake(mount.Config{})
	for name, config := range map[string]Config{
		"zero":           {},
		"no driver":      {Mounter: m},
		"no vendor":      {Mounter: m, Driver: "driver"},
		"a path":         {Mounter: m, Driver: "../driver"},
		"two slashes":    {Mounter: m, Driver: "a/b/c"},
		"long":           {Mounter: m, Driver: "a/" + strings.Repeat("b", 1000)},
		"relative":       {Mounter: m, Driver: driverName, Dir: "drivers"},
		"NUL":            {Mounter: m, Driver: driverName, Dir: "/a\x00"},
		"negative":       {Mounter: m, Driver: driverName, Timeout: -1},
		"no variable":    {Mounter: m, Driver: driverName, Env: []string{"A=b", "C"}},
		"empty variable": {Mounter: m, Driver: driverName, Env: []string{"=b"}},
	} {
		p := New(config)
		err := p.Init(t.Context(), host)
		var invalid *field.Error
		require.ErrorAs(t, err, &invalid, name)
		require.Less(t, len(err.Error()), 500)
		_, err = p.current(t.Context())
		require.ErrorIs(t, err, errNotInitialised)
	}
}

// TestBadArguments: attach and detach refuse names that a driver could take for something else.
func TestBadArguments(t *testing.T) {
	d := newFakeDriver(t, nil)
	n := newFakeNode(t, d)
	spec := d.volume(t)
	a, err := n.plugin.newAttacher()
	require.NoError(t, err)
	var invalid *field.Error
	for _, node := range []types.NodeName{"", "a b", "a\x00"} {
		_, err := a.Attach(t.Context(), spec, node)
		require.ErrorAs(t, err, &invalid)
		_, err = a.VolumesAreAttached(t.Context(), nil, node)
		require.ErrorAs(t, err, &invalid)
	}
	for _, name := range []string{"", "..", "a/b", "a\x00"} {
		require.ErrorAs(t, a.Detach(t.Context(), volume.DetachRequest{VolumeName: name, Node: "n"}), &invalid)
	}
	_, err = a.WaitForAttach(t.Context(), spec, "/dev/\x00", nil)
	require.ErrorAs(t, err, &invalid)
	for _, req := range []volume.NodeResizeOptions{{DevicePath: "/dev/\x00"}, {DeviceMountPath: "/etc"}, {DeviceMountPath: n.root + "/\x00"}} {
		req.Spec = spec
		_, err = n.plugin.NodeExpand(t.Context(), req)
		require.ErrorAs(t, err, &invalid)
	}
	spec.PersistentVolume.Spec.FlexVolume.Options = map[string]string{"a": strings.Repeat("x", maxOptions)}
	_, err = n.plugin.NewMounter(spec, pod("uid"))
	require.ErrorAs(t, err, &invalid)
	require.Empty(t, d.record())
}

// TestAttachFailures: after a failed attach the volume may be attached, unless the driver did not run.
func TestAttachFailures(t *testing.T) {
	d := newFakeDriver(t, nil)
	n := newFakeNode(t, d)
	spec := d.volume(t)
	a, err := n.plugin.newAttacher()
	require.NoError(t, err)
	_, err = n.plugin.current(t.Context())
	require.NoError(t, err)
	for answer, kind := range map[string]volume.ErrorKind{`{"status": "Failure"}`: volume.Uncertain, "": volume.Transient} {
		d.before = func(context.Context, []string) (string, error) {
			if answer == "" {
				return "", &notStartedError{errors.New("no memory")}
			}
			return answer, nil
		}
		_, err := a.Attach(t.Context(), spec, "n")
		require.Equal(t, kind, volume.KindOf(err), "%v", err)
		require.Equal(t, kind, volume.KindOf(a.Detach(t.Context(), volume.DetachRequest{VolumeName: "v", Node: "n"})))
		_, err = n.plugin.ExpandVolumeDevice(t.Context(), volume.ExpandRequest{Spec: spec})
		require.Equal(t, kind, volume.KindOf(err))
		_, err = n.plugin.NodeExpand(t.Context(), volume.NodeResizeOptions{Spec: spec})
		require.Equal(t, kind, volume.KindOf(err))
		_, err = a.WaitForAttach(t.Context(), spec, "", nil)
		require.Equal(t, volume.Transient, volume.KindOf(err))
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add(`{"status": "Success", "capabilities": {"attach": false}}`, "")
	f.Add("", `{"status": "Failure", "message": "no"}`)
	f.Add(`{"status": "Success", "device": "/dev/sdb", "volumeNewSize": 1}`, "warning")
	f.Fuzz(func(t *testing.T, stdout, stderr string) {
		var output programOutput
		_, _ = output.stdout.Write([]byte(stdout))
		_, _ = output.stderr.Write([]byte(stderr))
		a, err := parseAnswer(output)
		if err != nil {
			require.ErrorIs(t, err, ErrBadAnswer)
			return
		}
		require.NotNil(t, a.Capabilities)
		require.LessOrEqual(t, len(a.Device), maxDevice)
		require.GreaterOrEqual(t, a.NewSize, int64(0))
	})
}
