package docs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/disk/disktest"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/ownership"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func bindReadOnly(ctx context.Context, mounter mount.Interface) error {
	return mounter.Mount(ctx, mount.Request{Source: "/srv/data", Target: "/mnt/data", Options: []string{"ro", "noexec"}})
}

func unmountInTime(mounter mount.Interface, target string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return mounter.Unmount(ctx, target)
}

func newCarefulMounter() *mount.Mounter {
	return mount.New(mount.Config{Unmount: mount.UnmountPolicy{Last: mount.UnmountForce, Grace: time.Minute}})
}

func stage(ctx context.Context, disks *disk.Disks, device, target string) error {
	err := disks.FormatAndMount(ctx, disk.MountRequest{Device: device, Target: target, FSType: "ext4", Grow: true})
	if data := (*disk.ContentError)(nil); errors.As(err, &data) {
		return fmt.Errorf("the disk has other data: %v: %w", data.Found, err)
	}
	return err
}

func giveToGroup(ctx context.Context, dir string, fsGroup int64) error {
	_, err := ownership.Apply(ctx, dir, ownership.Options{Group: &fsGroup, Policy: ownership.OnRootMismatch})
	return err
}

func empty(ctx context.Context, dir string) error {
	root, err := scrub.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = root.Empty(ctx, scrub.Options{})
	return err
}

func waitForVolumes(ctx context.Context, volumes *manager.Manager, pod *v1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := volumes.WaitForAttachAndMount(ctx, pod)
	if waited := (*manager.WaitError)(nil); errors.As(err, &waited) {
		for _, v := range waited.Volumes {
			fmt.Println(v.Name, v.Err) // and the volumes of all pods: volumes.State()
		}
	}
	return err
}

func TestMountsForReal(t *testing.T) {
	if !mounttest.Namespace(t) { // runs the test again in a namespace, where it may mount
		return
	}
	mounter, target := mount.New(mount.Config{}), t.TempDir()
	require.NoError(t, mounter.Mount(t.Context(), mount.Request{Target: target, FSType: "tmpfs"}))
	require.NoError(t, mounter.Unmount(t.Context(), target))
}

func TestServerIsDead(t *testing.T) {
	kernel := mounttest.NewFake(mount.Config{})
	kernel.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: os.ErrDeadlineExceeded})
	require.ErrorIs(t, bindReadOnly(t.Context(), kernel), os.ErrDeadlineExceeded)
}

// TestCookbook runs the other answers of the cookbook.
func TestCookbook(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, newCarefulMounter().Close())
	kernel, machine := mounttest.NewFake(mount.Config{}), disktest.NewMachine()
	machine.AddDisk("/dev/vdb", 1<<30)
	disks := machine.Disks(kernel)
	require.NoError(t, stage(t.Context(), disks, "/dev/vdb", dir))
	require.NoError(t, unmountInTime(kernel, dir))
	machine.AddDisk("/dev/vdc", 1<<30)
	machine.Write("/dev/vdc", 512, "LABELONE")
	require.ErrorContains(t, stage(t.Context(), disks, "/dev/vdc", dir), "other data")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.NoError(t, giveToGroup(t.Context(), dir, int64(os.Getgid())))
	require.NoError(t, empty(t.Context(), dir))
	require.NoFileExists(t, filepath.Join(dir, "file"))

	host, err := volume.NewHost(t.Context(), dir)
	require.NoError(t, err)
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host, emptydir.New(emptydir.Config{Mounter: kernel}))
	require.NoError(t, err)
	source := manager.NewMemorySource()
	volumes, err := manager.New(manager.Config{Plugins: plugins, Mounter: kernel, Pods: source, Claims: source})
	require.NoError(t, err)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-1"}}
	pod.Spec.Volumes = []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers = []v1.Container{{Name: "web", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}}}
	require.NoError(t, source.SetPod(pod))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, waitForVolumes(ended, volumes, pod), manager.ErrNotRunning)
}
