package execution

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/hostdisk"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/record"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// A memoryDisk keeps the records in memory.
type memoryDisk struct {
	records     map[v1.UniqueVolumeName]record.Record
	writeErr    error
	removeErr   error
	subpathErr  error
	deviceUse   hostdisk.DeviceUse
	subpathRuns []hostdisk.PodSubpaths
}

func (d *memoryDisk) Write(rec record.Record) error {
	if d.writeErr == nil {
		d.records[rec.Volume] = rec
	}
	return d.writeErr
}

func (d *memoryDisk) Remove(name v1.UniqueVolumeName) error {
	if d.removeErr == nil {
		delete(d.records, name)
	}
	return d.removeErr
}

func (d *memoryDisk) UnmountSubpaths(_ context.Context, parts hostdisk.PodSubpaths) error {
	d.subpathRuns = append(d.subpathRuns, parts)
	return d.subpathErr
}

func (d *memoryDisk) DeviceUse(context.Context, string) (hostdisk.DeviceUse, error) {
	return d.deviceUse, nil
}

func (d *memoryDisk) RemoveEmptyParents(context.Context, string) error { return nil }

// A fakeAttacher attaches every volume as the same device.
type fakeAttacher struct{ requests []Attachment }

func (a *fakeAttacher) Attach(_ context.Context, request Attachment) (string, error) {
	a.requests = append(a.requests, request)
	return "/dev/disk", nil
}

func (a *fakeAttacher) Detach(_ context.Context, request Attachment) error {
	a.requests = append(a.requests, request)
	return nil
}

// A fixture is a runner with one volume of a fake plugin.
type fixture struct {
	Runner
	disk     *memoryDisk
	attacher *fakeAttacher
	plugin   *volumetest.FakePlugin
	kernel   *mounttest.Fake
	spec     *volume.Spec
	pod      *v1.Pod
	state    *actual.Volume
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir+"/root", 0o755))
	require.NoError(t, os.MkdirAll(dir+"/disk", 0o755))
	host, err := volume.NewHost(t.Context(), dir+"/root")
	require.NoError(t, err)
	kernel := mounttest.NewFake(mount.Config{})
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel})
	require.NoError(t, plugin.Init(t.Context(), host))
	b := &fixture{disk: &memoryDisk{records: map[v1.UniqueVolumeName]record.Record{}}, attacher: &fakeAttacher{}, plugin: plugin, kernel: kernel, pod: &v1.Pod{}}
	b.pod.UID, b.spec = podA.Pod, plugin.NewSpec("vol", dir+"/disk")
	b.Runner = Runner{Disk: b.disk, Mounter: kernel, Attacher: b.attacher, Node: "node", Dirs: host, Timeout: time.Minute,
		Progress: func(Job) (func(progress.Report), func()) { return nil, func() {} }}
	b.state = &actual.Volume{Plugin: plugin.GetPluginName(), Name: dir + "/disk", Spec: b.spec, Traits: naming.Traits{Attachable: true, DeviceMountable: true}}
	return b
}

// job returns the job of a verb in the present state.
func (b *fixture) job(verb operation.Verb) Job {
	j := Job{
		Operation: operation.Operation{Verb: verb, Volume: vol}, Plugin: b.plugin, PluginName: b.plugin.GetPluginName(), Name: b.state.Name,
		Spec: b.spec, Traits: b.state.Traits, Before: b.state, DevicePath: b.state.DevicePath, DeviceMountPath: b.state.DeviceMountPath,
		OuterName: "outer", Subpaths: func(outer string) bool { return outer == "outer" }, LastPod: b.state.LastPod,
	}
	if verb == operation.SetUp || verb == operation.TearDown {
		j.Operation.Pod = podA
	}
	if operation.BringsUp(verb) {
		j.ForPod, j.Record = b.pod, record.Of(vol, b.state, j.Operation.Pod)
	}
	return j
}

// run runs a verb, and applies its outcome.
func (b *fixture) run(t *testing.T, verb operation.Verb) Outcome {
	t.Helper()
	out := b.Run(t.Context(), b.job(verb))
	b.state = out.After
	return out
}

// bringUp attaches the volume, mounts it for all pods and sets it up in a pod.
func (b *fixture) bringUp(t *testing.T) {
	t.Helper()
	for _, verb := range []operation.Verb{operation.Attach, operation.MountDevice, operation.SetUp} {
		require.NoError(t, b.run(t, verb).Err)
	}
}

// TestRunnerSteps: the steps of a volume lead up and down again. The record exists from before the
// first step until the volume is absent, and names the device mount path while that is in use.
func TestRunnerSteps(t *testing.T) {
	b := newFixture(t)
	require.NoError(t, b.run(t, operation.Attach).Err)
	require.Equal(t, "/dev/disk", b.state.DevicePath)
	require.NoError(t, b.run(t, operation.MountDevice).Err)
	require.NotEmpty(t, b.state.DeviceMountPath)
	require.Equal(t, b.state.DeviceMountPath, b.disk.records[vol].DeviceMountPath, "recorded before the mount")
	require.NoError(t, b.run(t, operation.SetUp).Err)
	pod := b.state.Pods.Get(podA)
	require.True(t, pod.Mounted)
	require.NotZero(t, pod.Mount)
	require.NotZero(t, b.state.DeviceMount)
	require.False(t, b.state.NoDeviceMount)
	require.Equal(t, []record.Pod{{UID: podA.Pod, Name: podA.Name}}, b.disk.records[vol].Pods)

	require.NoError(t, b.run(t, operation.TearDown).Err)
	require.NoError(t, b.run(t, operation.UnmountDevice).Err)
	require.Contains(t, b.disk.records, vol)
	require.Empty(t, b.disk.records[vol].DeviceMountPath, "another volume may be mounted there")
	require.NoError(t, b.run(t, operation.Detach).Err)
	require.True(t, b.state.IsAbsent())
	require.Empty(t, b.disk.records)
	require.Len(t, b.attacher.requests, 2)
	require.Equal(t, "node", string(b.attacher.requests[1].Node))
}

// TestDeviceMountWithoutMount: after a MountDevice that mounts nothing at the path, no mount is expected there.
func TestDeviceMountWithoutMount(t *testing.T) {
	b := newFixture(t)
	require.NoError(t, b.run(t, operation.Attach).Err)
	for _, isMounted := range []bool{true, false} {
		if !isMounted {
			b.Mounter = noMounts{b.Mounter}
		}
		require.NoError(t, b.run(t, operation.MountDevice).Err)
		require.Equal(t, actual.Present, b.state.Device)
		_, expected := b.state.ExpectedMount(naming.Place{Volume: vol})
		require.Equal(t, isMounted, expected)
	}
}

// noMounts hides all mounts.
type noMounts struct{ mount.Interface }

func (noMounts) IsMountPoint(context.Context, string) (bool, error) { return false, nil }

// TestRecordIsWrittenFirst: an operation whose record cannot be written does not run.
func TestRecordIsWrittenFirst(t *testing.T) {
	b := newFixture(t)
	b.disk.writeErr = errors.New("disk full")
	out := b.run(t, operation.Attach)
	require.ErrorIs(t, out.Err, b.disk.writeErr)
	require.Equal(t, volume.Transient, volume.KindOf(out.Err))
	require.Empty(t, b.attacher.requests)
	require.True(t, out.After.IsAbsent())
}

// TestRecordStays: a volume whose record cannot be removed stays uncertain.
func TestRecordStays(t *testing.T) {
	b := newFixture(t)
	require.NoError(t, b.run(t, operation.Attach).Err)
	b.disk.removeErr = errors.New("read-only")
	out := b.run(t, operation.Detach)
	require.Equal(t, volume.Uncertain, volume.KindOf(out.Err))
	require.Equal(t, actual.Uncertain, out.After.Attached)
}

// TestInterruptedStep: the error of an interrupted set-up is uncertain unless it is transient, and
// that of an interrupted tear-down keeps its kind.
func TestInterruptedStep(t *testing.T) {
	failure := errors.New("signal: killed")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		verb operation.Verb
		err  error
		kind volume.ErrorKind
	}{
		"interrupted":           {ended, operation.SetUp, failure, volume.Uncertain},
		"in time":               {t.Context(), operation.SetUp, failure, volume.Final},
		"transient":             {ended, operation.SetUp, volume.ErrTransient, volume.Transient},
		"interrupted tear-down": {ended, operation.TearDown, failure, volume.Final},
		"success":               {ended, operation.SetUp, nil, volume.Success},
	} {
		require.Equal(t, test.kind, volume.KindOf(markInterrupted(test.ctx, test.verb, test.err)), name)
	}
}

// TestSlowOperationEndsUncertain: an operation that takes longer than the timeout ends with an uncertain error.
func TestSlowOperationEndsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t)
		b.bringUp(t)
		b.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: time.Hour, Err: errors.New("no luck")})
		out := b.run(t, operation.SetUp)
		require.Equal(t, volume.Uncertain, volume.KindOf(out.Err))
		require.Equal(t, time.Minute, out.Took)
	})
}

// A panicPlugin panics in NewUnmounter.
type panicPlugin struct{ *volumetest.FakePlugin }

func (panicPlugin) NewUnmounter(string, types.UID) (volume.Unmounter, error) { panic("no luck") }

// TestPanicIsUncertain: a panic of a plugin is an uncertain error of the operation.
func TestPanicIsUncertain(t *testing.T) {
	b := newFixture(t)
	b.bringUp(t)
	j := b.job(operation.TearDown)
	j.Plugin = panicPlugin{b.plugin}
	out := b.Run(t.Context(), j)
	require.ErrorContains(t, out.Err, "panicked: no luck")
	require.Equal(t, actual.Uncertain, out.After.StateOf(podA))
}

// TestMountStateOfFailure: a failed operation has the mount at its path; one that takes down also has
// the mounts below it.
func TestMountStateOfFailure(t *testing.T) {
	b := newFixture(t)
	require.NoError(t, os.MkdirAll(b.state.Name+"/below", 0o755))
	b.bringUp(t)
	path := b.state.Pods.Get(podA).Path
	require.NoError(t, b.kernel.Mount(t.Context(), mount.Request{Source: "foreign", FSType: "tmpfs", Target: path + "/below"}))
	for verb, method := range map[operation.Verb]volumetest.Method{operation.SetUp: volumetest.SetUp, operation.TearDown: volumetest.TearDown} {
		b.plugin.Inject(volumetest.Fault{Method: method, Err: volume.ErrTransient})
		out := b.Run(t.Context(), b.job(verb))
		require.Error(t, out.Err)
		require.Equal(t, path, out.Where.Path)
		require.Equal(t, b.state.Pods.Get(podA).Mount, out.Where.Mount)
		require.Equal(t, verb == operation.TearDown, out.Where.Below != 0, "%v", verb)
	}
}

// TestSubpathsFirst: subpaths are unmounted before the tear-down, which does not run if that fails.
// Busy subpaths are detached if the pod is gone; on a disk only if the use of its device is known.
func TestSubpathsFirst(t *testing.T) {
	b := newFixture(t)
	b.bringUp(t)
	b.disk.subpathErr = errors.New("busy")
	require.ErrorIs(t, b.run(t, operation.TearDown).Err, b.disk.subpathErr)
	require.Zero(t, b.plugin.Calls(volumetest.TearDown))
	require.Nil(t, b.disk.subpathRuns[0].Detach)
	require.True(t, b.disk.subpathRuns[0].Of("outer"))

	for use, disks := range map[hostdisk.DeviceUse]bool{hostdisk.DeviceUseUnknown: false, hostdisk.DeviceFree: true, hostdisk.DeviceInUse: true} {
		b.disk.deviceUse, b.disk.subpathRuns = use, nil
		j := b.job(operation.TearDown)
		j.PodGone = true
		b.Run(t.Context(), j)
		require.Equal(t, disks, b.disk.subpathRuns[0].Detach.Disks, "%v", use)
	}
}

// TestDeviceInUse: the unmounted device of a volume stays uncertain while the device is in use.
func TestDeviceInUse(t *testing.T) {
	b := newFixture(t)
	require.NoError(t, b.run(t, operation.Attach).Err)
	require.NoError(t, b.run(t, operation.MountDevice).Err)
	b.disk.deviceUse = hostdisk.DeviceInUse
	out := b.run(t, operation.UnmountDevice)
	require.ErrorContains(t, out.Err, "release device \"/dev/disk\": still in use")
	require.Equal(t, actual.Uncertain, out.After.Device)
	b.disk.deviceUse = hostdisk.DeviceFree
	require.NoError(t, b.run(t, operation.UnmountDevice).Err)
}

// TestExpansionRecordsSize: an expansion passes the sizes and paths of the volume, and records the size. One that
// the plugin does not support for the volume succeeds without an event.
func TestExpansionRecordsSize(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		silent bool
		kind   volume.ErrorKind
	}{
		"grown":       {nil, false, volume.Success},
		"unsupported": {volume.ErrNotSupported, true, volume.Success},
		"failed":      {volume.ErrTransient, false, volume.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.bringUp(t)
			if test.err != nil {
				b.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: test.err})
			}
			before, after := resource.MustParse("1Gi"), resource.MustParse("2Gi")
			j := b.job(operation.Expand)
			j.OldSize, j.Size, j.VolumePath, j.Grower = &before, &after, b.state.Pods.Get(podA).Path, &Grower{Pod: b.pod}
			request := j.resize()
			require.Equal(t, [2]resource.Quantity{before, after}, [2]resource.Quantity{request.OldSize, request.NewSize})
			require.Equal(t, j.DeviceMountPath, request.DeviceMountPath)
			require.Equal(t, j.DeviceMountPath, request.DeviceStagePath)
			require.Same(t, b.pod, request.Pod)
			out := b.Run(t.Context(), j)
			require.Equal(t, test.kind, volume.KindOf(out.Err))
			require.Equal(t, test.silent, out.Silent)
			require.Equal(t, out.Err == nil, out.After.Size != nil)
			recorded := b.disk.records[vol].Size
			require.Equal(t, out.Err == nil, recorded != nil && recorded.Cmp(after) == 0)
		})
	}
}

// TestBlockSteps: a block volume is staged, mapped and torn down with the paths of its device.
func TestBlockSteps(t *testing.T) {
	b := newFixture(t)
	b.state.Traits = naming.Traits{Attachable: true, Block: true}
	b.bringUp(t)
	pod := b.state.Pods.Get(podA)
	require.True(t, pod.Block)
	target, err := os.Readlink(pod.Path)
	require.NoError(t, err)
	require.Equal(t, b.state.Name, target)
	for _, verb := range []operation.Verb{operation.TearDown, operation.UnmountDevice, operation.Detach} {
		require.NoError(t, b.run(t, verb).Err)
	}
	require.Equal(t, 1, b.plugin.Calls(volumetest.TearDownDevice))
	require.True(t, b.state.IsAbsent())
}

// A plainPlugin has no mount options.
type plainPlugin struct{ volume.VolumePlugin }

// TestMountOptionsAreRefused: mount options fail the set-up by a plugin that ignores them.
func TestMountOptionsAreRefused(t *testing.T) {
	b := newFixture(t)
	require.NoError(t, checkOptions(plainPlugin{b.plugin}, b.spec))
	b.spec.PersistentVolume.Spec.MountOptions = []string{"noatime"}
	require.NoError(t, checkOptions(b.plugin, b.spec))
	require.ErrorIs(t, checkOptions(plainPlugin{b.plugin}, b.spec), volume.ErrNotSupported)
}
