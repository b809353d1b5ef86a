package local_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// partitions are a disk's: its node, and those of two partitions of it.
func (r *rig) partitions(t *testing.T) (whole, first, second string) {
	t.Helper()
	testbed.RequirePrograms(t, "loop", "losetup", "addpart", "delpart")
	require.NoError(t, unix.Mount("", filepath.Dir(r.dir), "", unix.MS_REMOUNT|unix.MS_BIND, "")) // with devices
	testbed.Image(t, r.dir+"/image", 64<<20)
	disk := testbed.Loop(t, r.dir+"/image", "--partscan")
	node := func(name, dir string) string {
		text, err := os.ReadFile(dir + "/dev")
		require.NoError(t, err)
		var major, minor uint32
		_, err = fmt.Sscanf(string(text), "%d:%d", &major, &minor)
		require.NoError(t, err)
		at := r.disks + "/" + name
		require.NoError(t, unix.Mknod(at, unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor))))
		return at
	}
	base := path.Base(disk)
	sys := "/sys/block/" + base
	var parts []string
	for i, start := range []string{"2048", "65536"} {
		n := fmt.Sprint(i + 1)
		run(t, "addpart", disk, n, start, "61440")
		t.Cleanup(func() { run(t, "delpart", disk, n) })
		parts = append(parts, node("part"+n, sys+"/"+base+"p"+n))
	}
	return node("whole", sys), parts[0], parts[1]
}

// TestPartitionsOfRawDisk checks that a device mapped as a raw volume is in use together with its
// partitions and its disk; another partition is not.
func TestPartitionsOfRawDisk(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	whole, first, second := r.partitions(t)
	for raw, others := range map[string]map[string]bool{
		whole: {first: false, second: false},
		first: {whole: false, second: true},
	} {
		mine := r.mapRaw(t, raw)
		f, err := os.OpenFile(raw, os.O_RDWR|unix.O_EXCL, 0)
		require.NoError(t, err, "the pod may open it as it likes")
		// At an offset that no probe reads, neither of the partition nor of the disk.
		_, err = f.WriteAt([]byte("the pod's"), 10<<20)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		for other, free := range others {
			s := named(deviceSpec(other, "ext4"), path.Base(other))
			mapper, err := r.plugin.NewBlockVolumeMapper(named(blockSpec(other), path.Base(other)), pod("2"))
			require.NoError(t, err)
			if free {
				require.NoError(t, r.mountDevice(s), "%s beside %s", other, raw)
				require.NoError(t, r.unmountDevice(s))
				r.mapRaw(t, other)()
				continue
			}
			_, err = mapper.SetUpDevice(t.Context(), volume.BlockVolumePaths{})
			for _, err := range []error{r.mountDevice(s), err} {
				require.ErrorIs(t, err, local.ErrDeviceInUse, "%s while a pod has %s", other, raw)
				require.Equal(t, volume.Transient, volume.KindOf(err))
			}
		}
		text := make([]byte, 9)
		f, err = os.Open(raw)
		require.NoError(t, err)
		_, err = f.ReadAt(text, 10<<20)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, "the pod's", string(text))
		mine()
	}
	// A mount has its partition for itself, and so the disk.
	s := named(deviceSpec(second, "ext4"), path.Base(second))
	require.NoError(t, r.mountDevice(s))
	mapper, err := r.plugin.NewBlockVolumeMapper(named(blockSpec(whole), path.Base(whole)), pod("1"))
	require.NoError(t, err)
	_, err = mapper.SetUpDevice(t.Context(), volume.BlockVolumePaths{})
	require.ErrorIs(t, err, local.ErrDeviceInUse)
	r.mapRaw(t, first)()
	require.NoError(t, r.unmountDevice(s))
}

func named(s *volume.Spec, name string) *volume.Spec {
	s.PersistentVolume.Name, s.PersistentVolume.UID = name, types.UID(name)
	return s
}

// mapRaw maps a device for a pod, until the returned function is called.
func (r *rig) mapRaw(t *testing.T, device string) (unmap func()) {
	t.Helper()
	s := named(blockSpec(device), path.Base(device))
	m, err := r.plugin.NewBlockVolumeMapper(s, pod("1"))
	require.NoError(t, err)
	_, err = m.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	return func() {
		t.Helper()
		u, err := r.plugin.NewBlockVolumeUnmapper(s.Name(), "1")
		require.NoError(t, err)
		at, err := u.GetGlobalMapPath(s)
		require.NoError(t, err)
		require.NoError(t, u.UnmapPodDevice(t.Context()))
		require.NoError(t, u.TearDownDevice(t.Context(), volume.BlockVolumePaths{GlobalMapPath: at}))
	}
}
