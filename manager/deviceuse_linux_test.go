package manager_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/util/subpath"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// loopDevice returns a new block device.
func loopDevice(t *testing.T, dir string) string {
	t.Helper()
	image := filepath.Join(dir, "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 16<<20))
	d, err := loop.AttachFileDevice(t.Context(), image, loop.Config{})
	if err != nil {
		mounttest.SkipWithout(t, "loop", err)
	}
	t.Cleanup(func() { _ = loop.Detach(context.Background(), d) })
	testbed.DetachAtEnd(t, d.Path)
	return d.Path
}

// TestBusySubpathIsDetached: a subpath of a disk that a process of the node keeps open does not delay
// the tear-down of its pod. While the file is open the disk is in use, and the next pod of the volume
// is set up on it.
func TestBusySubpathIsDetached(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		mounttest.SkipWithout(t, "ext4", err)
	}
	dir := newTmpfsDir(t)
	n, err := newRealNode(dir)
	require.NoError(t, err)
	device := loopDevice(t, dir)
	require.NoError(t, os.Symlink(device, dir+"/links/disk"))
	n.addSharedDisk(dir + "/links/disk")
	stop := n.run(t.Context())
	pod, next := n.pod(1, "shared"), n.pod(2, "shared")
	require.NoError(t, n.up(t.Context(), pod))
	podDir := filepath.Join(dir, "root/pods", string(pod.UID))
	part, err := subpath.Bind(t.Context(), n.kernel, subpath.Request{
		PodDir: podDir, Volume: "shared", Container: "c", Create: true, Path: "part",
		VolumeDir: n.manager.GetMountedVolumesForPod(pod.UID)["shared"].Path,
	})
	require.NoError(t, err)
	file, err := os.Create(part + "/file")
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, n.down(ctx, pod))
	require.NoDirExists(t, podDir)
	require.Eventually(t, func() bool {
		v := n.manager.State().Volumes
		return len(v) == 1 && v[0].Err != nil && strings.Contains(v[0].Err.Error(), "still in use")
	}, time.Minute, 10*time.Millisecond, "the disk is not free")
	_, err = os.OpenFile(device, os.O_RDONLY|os.O_EXCL, 0)
	require.ErrorIs(t, err, syscall.EBUSY)

	require.NoError(t, n.up(t.Context(), next))
	_, err = file.WriteString("late")
	require.NoError(t, err)
	text, err := os.ReadFile(n.manager.GetMountedVolumesForPod(next.UID)["shared"].Path + "/part/file")
	require.NoError(t, err)
	require.Equal(t, "late", string(text))
	require.NoError(t, n.down(t.Context(), next))
	require.NoError(t, file.Close())
	require.Eventually(t, func() bool { return len(n.manager.State().Volumes) == 0 }, time.Minute, 10*time.Millisecond)
	requireFree(t, device)
	require.NoError(t, stop())
}

func requireFree(t *testing.T, device string) {
	t.Helper()
	f, err := os.OpenFile(device, os.O_RDONLY|os.O_EXCL, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A deviceAttacher is an attacher whose volumes are all the same device.
type deviceAttacher struct{ device string }

// Attach implements manager.Attacher.
func (a deviceAttacher) Attach(context.Context, manager.Attachment) (string, error) {
	return a.device, nil
}

// Detach implements manager.Attacher.
func (a deviceAttacher) Detach(context.Context, manager.Attachment) error {
	f, err := os.OpenFile(a.device, os.O_RDONLY|os.O_EXCL, 0)
	if err == nil {
		_ = f.Close()
	}
	return err
}

// TestDeviceInUseIsNotDetached: a device that a process has opened exclusively is neither detached nor
// reported as not in use.
func TestDeviceInUseIsNotDetached(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newNode(t, volumetest.FakeConfig{})
	device := loopDevice(t, n.dir)
	n.config.Attacher = deviceAttacher{device}
	n.claim("a")
	pod := podWith("1", "a")
	m, stop := n.runUp(pod)
	f, err := os.OpenFile(device, os.O_RDONLY|os.O_EXCL, 0)
	require.NoError(t, err)
	n.source.RemovePod("1")
	n.down(m, pod)
	require.Eventually(t, func() bool {
		v := m.State().Volumes
		return len(v) == 1 && v[0].Err != nil && strings.Contains(v[0].Err.Error(), "still in use")
	}, time.Minute, 10*time.Millisecond)
	require.Len(t, m.GetVolumesInUse(), 1)
	require.True(t, m.VolumeIsAttached(m.State().Volumes[0].Unique))
	require.NoError(t, f.Close())
	require.Eventually(t, func() bool { return len(m.State().Volumes) == 0 }, time.Minute, 10*time.Millisecond)
	stop()
}
