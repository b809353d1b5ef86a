package disk_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/loop"
)

// TestMountedElsewhere: a device whose file system is mounted at another target, or in another mount
// namespace, is mounted once more without a program; as another type, and while another program uses the
// device, it is in use.
func TestMountedElsewhere(t *testing.T) {
	onEachType(t, func(t *testing.T, r *rig, fsType string) {
		d := r.disk(t, "disk", sizeFor[fsType])
		r.mount(t, d.device, fsType)
		require.NoError(t, os.WriteFile(r.target()+"/file", []byte("text"), 0o600))
		r.replacePrograms(map[string]string{"mkfs." + fsType: "exit 1", "fsck." + fsType: "exit 4"})
		second := r.request(d.device, fsType)
		second.Target, second.New = r.dir+"/second", true
		require.NoError(t, os.Mkdir(second.Target, 0o755))
		for _, fsType := range []string{fsType, ""} {
			second.FSType = fsType
			for range 2 {
				require.NoError(t, r.disks.FormatAndMount(t.Context(), second))
			}
			require.FileExists(t, second.Target+"/file")
			require.NoError(t, r.mounter.Unmount(t.Context(), second.Target))
		}
		second.FSType = map[string]string{"ext4": "xfs", "xfs": "btrfs", "btrfs": "ext4"}[fsType]
		require.ErrorIs(t, r.disks.FormatAndMount(t.Context(), second), disk.ErrInUse)

		release := holdTable(t)
		r.unmount(t)
		r.mount(t, d.device, fsType)
		require.FileExists(t, r.target()+"/file")
		r.unmount(t)
		release()
		if fsType == "ext4" {
			err := r.disks.FormatAndMount(t.Context(), r.request(d.device, fsType))
			require.ErrorIs(t, err, disk.ErrDamaged, "nobody uses the device: it is checked")
		}
	})
}

// TestUsedByOthers: a device with the wanted file system that another program has opened exclusively, or shows
// by a loop device, is in use.
func TestUsedByOthers(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk(t, "disk", sizeFor["ext4"])
	require.NoError(t, r.disks.Format(t.Context(), disk.FormatRequest{Device: d.device}))
	for name, flags := range map[string]int{"exclusive": os.O_EXCL, "loop": 0} {
		t.Run(name, func(t *testing.T) {
			f, err := os.OpenFile(d.device, os.O_RDONLY|flags, 0)
			require.NoError(t, err)
			defer func() { _ = f.Close() }()
			if name == "loop" {
				on, err := loop.Attach(t.Context(), loop.Config{File: f, ReadOnly: true})
				require.NoError(t, err)
				defer func() { require.NoError(t, loop.Detach(context.Background(), on)) }()
			}
			err = r.disks.FormatAndMount(t.Context(), r.request(d.device, "ext4"))
			require.ErrorIs(t, err, disk.ErrInUse)
			require.NotErrorIs(t, err, mount.ErrUncertain)
			is, err := r.mounter.IsMountPoint(t.Context(), r.target())
			require.NoError(t, err)
			require.False(t, is)
		})
	}
}

// TestReadOnlyNeedsNoGrowth: a file system that is smaller than its device, on a read-only device or mount,
// is not to be grown.
func TestReadOnlyNeedsNoGrowth(t *testing.T) {
	onEachType(t, func(t *testing.T, r *rig, fsType string) {
		d := r.disk(t, "disk", sizeFor[fsType])
		r.mount(t, d.device, fsType)
		r.unmount(t)
		d.resize(t, 2*sizeFor[fsType])
		require.NoError(t, loop.Detach(t.Context(), loop.Device{Path: d.device}))
		for name, options := range map[string][]string{"device": nil, "mount": {"ro"}} {
			t.Run(name, func(t *testing.T) {
				device := r.readOnlyDisk(t, "disk").device
				if name == "mount" {
					device = r.disk(t, "disk", 2*sizeFor[fsType]).device
				}
				request := r.request(device, fsType, options...)
				request.Grow = true
				require.NoError(t, r.disks.FormatAndMount(t.Context(), request))
				mounted := disk.GrowRequest{Device: device, Target: r.target()}
				needed, err := r.disks.NeedsGrow(t.Context(), mounted)
				require.NoError(t, err)
				require.False(t, needed)
				_, err = r.disks.Grow(t.Context(), mounted)
				require.ErrorIs(t, err, disk.ErrReadOnly)
				r.unmount(t)
				needed, err = r.disks.NeedsGrow(t.Context(), disk.GrowRequest{Device: device})
				require.NoError(t, err)
				require.Equal(t, name == "mount", needed)
			})
		}
	})
}

// holdTable keeps a copy of the mount table in another mount namespace until release.
func holdTable(t *testing.T) (release func()) {
	t.Helper()
	c := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", "echo; exec sleep 1000")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	release = func() { _ = c.Process.Kill(); _ = c.Wait() }
	t.Cleanup(release)
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	return release
}
