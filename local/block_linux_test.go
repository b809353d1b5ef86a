package local_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

func (r *rig) mapper(s *volume.Spec, uid types.UID) volume.BlockVolumeMapper {
	r.t.Helper()
	m, err := r.plugin.NewBlockVolumeMapper(s, pod(uid))
	require.NoError(r.t, err)
	return m
}

func (r *rig) unmapper(uid types.UID) volume.BlockVolumeUnmapper {
	r.t.Helper()
	u, err := r.plugin.NewBlockVolumeUnmapper("pv", uid)
	require.NoError(r.t, err)
	return u
}

// release makes the calls that follow the last pod of a device.
func (r *rig) release(uid types.UID, global string) {
	r.t.Helper()
	require.NoError(r.t, r.unmapper(uid).UnmapPodDevice(r.t.Context()))
	require.NoError(r.t, r.unmapper(uid).TearDownDevice(r.t.Context(), volume.BlockVolumePaths{GlobalMapPath: global}))
}

// podLink is where a pod finds its device.
func podLink(v volume.BlockVolume) string {
	dir, name := v.GetPodDeviceMapPath()
	return filepath.Join(dir, name)
}

// holds are the loop devices on a disk.
func (r *rig) holds(d testDisk) []loop.Device {
	r.t.Helper()
	all, err := loop.List(context.Background())
	require.NoError(r.t, err)
	var held []loop.Device
	for _, l := range all {
		if l.Backing == d.device {
			held = append(held, l)
		}
	}
	return held
}

// requireReleased waits: another process that opens a loop device keeps it for an instant.
func (r *rig) requireReleased(d testDisk) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return len(r.holds(d)) == 0 }, longWait, tick)
}

// TestBlock is the life of a raw device: mapped for a writer and a reader, through a
// restart, grown and let go.
func TestBlock(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	s := blockSpec(r.link("disk", d))
	_, err := r.plugin.NewMounter(s, pod("1"))
	require.ErrorIs(t, err, volume.ErrNotSupported)
	name, err := r.plugin.GetVolumeName(s)
	require.NoError(t, err)
	require.Equal(t, "pv", name)
	writer := r.mapper(s, "1")
	global, err := writer.GetGlobalMapPath(s)
	require.NoError(t, err)
	_, err = writer.GetMetrics(t.Context())
	require.ErrorIs(t, err, volume.ErrNotMounted)
	_, err = r.plugin.ConstructBlockVolumeSpec(t.Context(), "1", "pv", podLink(writer))
	require.ErrorIs(t, err, volume.ErrNotMounted)

	for range 2 {
		_, err = writer.SetUpDevice(t.Context(), volume.BlockVolumePaths{})
		require.NoError(t, err)
		path, err := writer.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
		require.NoError(t, err)
		require.Equal(t, d.device, path)
	}
	require.Len(t, r.holds(d), 1)
	require.NoError(t, os.WriteFile(podLink(writer), []byte("text"), 0))
	readOnly := blockSpec(r.links + "/disk")
	readOnly.ReadOnly = true
	reader := r.mapper(readOnly, "2")
	_, err = reader.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	require.ErrorIs(t, os.WriteFile(podLink(reader), []byte("x"), 0), os.ErrPermission)
	require.NoError(t, os.WriteFile(podLink(writer), []byte("text"), 0))
	_, err = r.mapper(s, "2").MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	_, err = r.mapper(readOnly, "1").MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	require.FileExists(t, filepath.Join(global, "1"))
	require.FileExists(t, filepath.Join(global, "2"))
	metrics, err := reader.GetMetrics(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(smallDisk), metrics.Capacity.Value())

	r.restart(local.Config{})
	for uid, want := range map[types.UID]bool{"1": false, "2": true} {
		found, err := r.plugin.ConstructBlockVolumeSpec(t.Context(), uid, "pv", podLink(r.unmapper(uid)))
		require.NoError(t, err)
		require.True(t, found.Spec.IsBlock())
		require.Equal(t, want, found.Spec.IsReadOnly())
		require.Equal(t, s.PersistentVolume.Spec.Local.Path, found.Spec.PersistentVolume.Spec.Local.Path)
		_, err = r.mapper(found.Spec, uid).MapPodDevice(t.Context(), volume.BlockVolumePaths{})
		require.NoError(t, err, "it is mapped so")
	}
	require.Len(t, r.holds(d), 1, "the hold is found again")

	require.NoError(t, os.Truncate(d.image, 2*smallDisk))
	require.NoError(t, loop.Resize(context.Background(), loop.Device{Path: d.device}))
	grown, err := r.plugin.NodeExpand(t.Context(), volume.NodeResizeOptions{Spec: s, NewSize: *resource.NewQuantity(2*smallDisk, resource.BinarySI)})
	require.NoError(t, err)
	require.True(t, grown)
	metrics, err = r.unmapper("2").GetMetrics(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(2*smallDisk), metrics.Capacity.Value())

	require.ErrorIs(t, r.unmapper("1").TearDownDevice(t.Context(), volume.BlockVolumePaths{GlobalMapPath: global}), local.ErrDeviceInUse)
	require.Error(t, r.unmapper("1").TearDownDevice(t.Context(), volume.BlockVolumePaths{GlobalMapPath: r.dir}))
	for range 2 {
		for _, uid := range []types.UID{"1", "2"} {
			require.NoError(t, r.unmapper(uid).UnmapPodDevice(t.Context()))
		}
	}
	for range 2 {
		require.NoError(t, r.unmapper("1").TearDownDevice(t.Context(), volume.BlockVolumePaths{GlobalMapPath: global, DevicePath: d.device}))
	}
	r.requireReleased(d)
	require.NoDirExists(t, global)
	text, err := os.ReadFile(d.device)
	require.NoError(t, err)
	require.Equal(t, "text", string(text[:4]))
}

// TestMappedDeviceIsHeld: a device that is mapped does not vanish, and another one is not
// taken for it.
func TestMappedDeviceIsHeld(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	d, other := r.disk("disk", smallDisk), r.disk("other", smallDisk)
	s := blockSpec(r.link("disk", d))
	_, err := r.mapper(s, "1").MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	require.NoError(t, loop.Detach(context.Background(), loop.Device{Path: d.device}), "as when a disk is pulled out")
	require.Len(t, r.holds(d), 1)
	_, err = loop.Status(context.Background(), d.device)
	require.NoError(t, err, "it is still there")

	r.link("disk", other)
	_, err = r.mapper(s, "2").MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.ErrorIs(t, err, local.ErrDeviceSwapped)
	require.NoError(t, os.Remove(r.links+"/disk"))
	_, err = r.mapper(s, "2").MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.ErrorIs(t, err, local.ErrDeviceGone)
	require.Equal(t, volume.Transient, volume.KindOf(err))

	u := r.unmapper("1")
	global, err := u.GetGlobalMapPath(s)
	require.NoError(t, err)
	require.NoError(t, u.UnmapPodDevice(t.Context()))
	require.NoError(t, u.TearDownDevice(t.Context(), volume.BlockVolumePaths{GlobalMapPath: global}))
	r.requireReleased(d)
	require.Eventually(t, func() bool {
		_, err = loop.Status(context.Background(), d.device)
		return err != nil
	}, longWait, tick, "now it is let go")
}

// TestReleasedHoldIsNotReused checks that a hold that a process still has open when it is released is
// not taken for the next pod's hold. The hold ends when the process closes it, and its
// number is free for any device then.
func TestReleasedHoldIsNotReused(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	require.NoError(t, os.WriteFile(d.device, []byte("ours"), 0))
	s := blockSpec(r.link("disk", d), "ro")
	first := r.mapper(s, "1")
	device, err := first.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	lingers, err := os.Open(device)
	require.NoError(t, err)
	defer func() { _ = lingers.Close() }()
	global, err := first.GetGlobalMapPath(s)
	require.NoError(t, err)
	r.release("1", global)

	second := r.mapper(s, "2")
	again, err := second.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	require.NotEqual(t, device, again)
	require.NoError(t, lingers.Close())
	require.Eventually(t, func() bool { return len(r.holds(d)) == 1 }, longWait, tick)
	status, err := loop.Status(context.Background(), again)
	require.NoError(t, err)
	require.False(t, status.Ending)
	found, err := r.plugin.ConstructBlockVolumeSpec(t.Context(), "2", "pv", podLink(second))
	require.NoError(t, err)
	require.True(t, found.Spec.IsReadOnly())
	text, err := os.ReadFile(podLink(second))
	require.NoError(t, err)
	require.Equal(t, "ours", string(text[:4]))
	r.release("2", global)
	r.requireReleased(d)
}

// TestBlockRestarted: links of before the node was started again lead anywhere.
func TestBlockRestarted(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	s := blockSpec(r.link("disk", d))
	first, second := r.mapper(s, "1"), r.mapper(s, "2")
	for _, m := range []volume.BlockVolumeMapper{first, second} {
		_, err := m.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
		require.NoError(t, err)
	}
	global, err := first.GetGlobalMapPath(s)
	require.NoError(t, err)
	record := filepath.Join(filepath.Dir(filepath.Dir(global)), "devices", "pv")
	text := `{"state":"block","uid":"uid-of-pv","path":"` + r.links + `/disk","disk":{"boot":"another","sequence":1}}`
	require.NoError(t, os.WriteFile(record, []byte(text), 0o600))
	for _, link := range []string{podLink(first), podLink(second), filepath.Join(global, "1"), filepath.Join(global, "2")} {
		require.NoError(t, os.Remove(link))
		require.NoError(t, os.Symlink("/dev/sda-of-before", link))
	}
	_, err = first.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	to, err := os.Readlink(podLink(first))
	require.NoError(t, err)
	require.Equal(t, d.device, to)
	require.NoFileExists(t, podLink(second), "it has to be mapped again")
	_, err = os.Lstat(podLink(second))
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, uid := range []types.UID{"1", "2"} {
		require.NoError(t, r.unmapper(uid).UnmapPodDevice(t.Context()))
	}
	require.NoError(t, r.unmapper("1").TearDownDevice(t.Context(), volume.BlockVolumePaths{GlobalMapPath: global}))
}

// TestBlockReaderRestarted checks that a pod which could only read before a restart of the
// node can only read afterwards.
func TestBlockReaderRestarted(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	s := blockSpec(r.link("disk", d), "ro")
	m := r.mapper(s, "1")
	for range 2 {
		_, err := m.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
		require.NoError(t, err)
	}
	for _, held := range r.holds(d) {
		status, err := loop.Status(context.Background(), held.Path)
		require.NoError(t, err)
		require.NoError(t, loop.Detach(context.Background(), status))
	}
	r.requireReleased(d)
	global, err := m.GetGlobalMapPath(s)
	require.NoError(t, err)
	record := filepath.Join(filepath.Dir(filepath.Dir(global)), "devices", "pv")
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	text = regexp.MustCompile(`"boot":"[^"]*"`).ReplaceAll(text, []byte(`"boot":"another"`))
	require.NoError(t, os.WriteFile(record, text, 0o600))
	r.restart(local.Config{})

	found, err := r.plugin.ConstructBlockVolumeSpec(t.Context(), "1", "pv", podLink(m))
	require.NoError(t, err)
	require.True(t, found.Spec.IsReadOnly())
	again := r.mapper(found.Spec, "1")
	_, err = again.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	require.ErrorIs(t, os.WriteFile(podLink(again), []byte("x"), 0), os.ErrPermission)

	require.NoError(t, r.unmapper("1").UnmapPodDevice(t.Context()))
	writable := blockSpec(r.links + "/disk")
	_, err = r.mapper(writable, "1").MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	found, err = r.plugin.ConstructBlockVolumeSpec(t.Context(), "1", "pv", podLink(m))
	require.NoError(t, err)
	require.False(t, found.Spec.IsReadOnly(), "it may write now")
	r.release("1", global)
	r.requireReleased(d)
}

// TestBlockOtherNode: a device is known by whatever node, wherever that is.
func TestBlockOtherNode(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	require.NoError(t, unix.Mount("tmpfs", r.disks, "tmpfs", 0, "")) // not nodev
	node := r.disks + "/node"
	require.NoError(t, unix.Mknod(node, unix.S_IFBLK|0o600, int(numberOf(t, d))))
	s := blockSpec(node)
	m := r.mapper(s, "1")
	holds := func() []loop.Device {
		held := r.holds(d)
		return append(held, r.holds(testDisk{device: node})...)
	}
	for range 3 {
		_, err := m.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
		require.NoError(t, err)
	}
	require.Len(t, holds(), 1)
	other := deviceSpec(r.link("disk", d), "ext4")
	other.PersistentVolume.Name = "mounted"
	require.ErrorIs(t, r.mountDevice(other), local.ErrDeviceInUse)
	global, err := m.GetGlobalMapPath(s)
	require.NoError(t, err)
	r.release("1", global)
	require.Eventually(t, func() bool { return len(holds()) == 0 }, longWait, tick)
}

// A fileContext is a context that ends when a file exists.
type fileContext struct {
	context.Context
	file string
}

func (e fileContext) Err() error {
	if _, err := os.Lstat(e.file); err == nil {
		return context.Canceled
	}
	return nil
}

// TestMapSucceedsAfterContext: a context that ends once the device is mapped is no failure.
func TestMapSucceedsAfterContext(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	m := r.mapper(blockSpec(r.link("disk", d)), "1")
	device, err := m.MapPodDevice(fileContext{t.Context(), podLink(m)}, volume.BlockVolumePaths{})
	require.NoError(t, err)
	require.Equal(t, d.device, device)
}

// TestForgetRaw: the record of a device stays as long as the device is held.
func TestForgetRaw(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	m := r.mapper(blockSpec(r.link("disk", d)), "1")
	_, err := m.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	global, err := m.GetGlobalMapPath(blockSpec(r.links + "/disk"))
	require.NoError(t, err)
	require.NoError(t, r.unmapper("1").UnmapPodDevice(t.Context()))
	require.ErrorIs(t, r.plugin.Forget(t.Context(), "pv"), local.ErrDeviceInUse, "it is held")
	_, err = m.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	for _, held := range r.holds(d) {
		status, err := loop.Status(context.Background(), held.Path)
		require.NoError(t, err)
		require.NoError(t, loop.Detach(context.Background(), status))
	}
	require.ErrorIs(t, r.plugin.Forget(t.Context(), "pv"), local.ErrDeviceInUse, "a pod has it")
	r.release("1", global)
	r.requireReleased(d)
	require.NoError(t, r.plugin.Forget(t.Context(), "pv"))
}

// TestBlockStrayFile: a file in the place of a link stays.
func TestBlockStrayFile(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	m := r.mapper(blockSpec(r.link("disk", d)), "1")
	dir, _ := m.GetPodDeviceMapPath()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(podLink(m), []byte("precious"), 0o600))
	_, err := m.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.Error(t, err)
	require.Error(t, r.unmapper("1").UnmapPodDevice(t.Context()))
	require.FileExists(t, podLink(m))
}

func TestBlockRefuses(t *testing.T) {
	r := newNode(t, mounttest.NewFake(noConfig))
	for name, s := range map[string]*volume.Spec{
		"no path": blockSpec(""), "elsewhere": blockSpec("/etc/x"), "deeper": blockSpec(r.disks + "/a/b"),
		"option": blockSpec(r.disks+"/a", "noatime"), "not raw": spec(r.disks + "/a"), "nil": nil,
	} {
		_, err := r.plugin.NewBlockVolumeMapper(s, pod("1"))
		require.Error(t, err, name)
	}
	for _, bad := range []string{"", "..", "a/b", "a\x00"} {
		_, err := r.plugin.NewBlockVolumeMapper(blockSpec(r.disks+"/a"), pod(types.UID(bad)))
		require.Error(t, err)
		_, err = r.plugin.NewBlockVolumeUnmapper(bad, "1")
		require.Error(t, err)
		_, err = r.plugin.NewBlockVolumeUnmapper("pv", types.UID(bad))
		require.Error(t, err)
		require.Error(t, r.plugin.Forget(t.Context(), bad))
	}
	_, err := r.plugin.NewBlockVolumeMapper(blockSpec(r.disks+"/a"), nil)
	require.Error(t, err)
	left, err := os.ReadDir(r.host.Root())
	require.NoError(t, err)
	require.Empty(t, left)
}
