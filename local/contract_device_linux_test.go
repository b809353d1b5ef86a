package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestDeviceContract: volumes on devices keep the same promises as directories.
func TestDeviceContract(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		links, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		config := deviceContract(links, func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "disk")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			require.NoError(t, os.Truncate(file, 128<<10)) // little to read
			return file
		}, func(t *testing.T, disk string) {
			require.NoError(t, local.MakeExt4(disk, "00112233445566778899aabbccddeeff"))
		})
		config.New = func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			plugin := local.New(local.Config{Mounter: m, DeviceLinks: []string{links}})
			plugin.UseFiles()
			return plugin
		}
		config.Enlarge = func(t *testing.T, s *volume.Spec) resource.Quantity {
			file, err := os.Readlink(s.PersistentVolume.Spec.Local.Path)
			require.NoError(t, err)
			return grown(t, file, 64<<10)
		}
		config.NoMetrics = true
		config.NoBlock = true // files are taken for disks
		volumetest.TestPlugin(t, config)
	})
	t.Run("real", func(t *testing.T) {
		r := newRig(t, "ext4")
		if r == nil {
			return
		}
		testbed.StartDetacher(t)
		disks := map[string]testDisk{}
		config := deviceContract(r.links, func(t *testing.T) string {
			of := &rig{t: t, dir: t.TempDir()}
			d := of.disk("disk", 4<<20)
			disks[d.device] = d
			return d.device
		}, func(t *testing.T, disk string) { run(t, "mkfs.ext4", "-q", disk) })
		config.Enlarge = func(t *testing.T, s *volume.Spec) resource.Quantity {
			needsToGrowExt4(t)
			device, err := os.Readlink(s.PersistentVolume.Spec.Local.Path)
			require.NoError(t, err)
			size := grown(t, disks[device].image, 4<<20)
			require.NoError(t, loop.Resize(context.Background(), loop.Device{Path: device}))
			return size
		}
		config.OwnCapacity = true
		config.NewMounter = func(*testing.T) mount.Interface {
			return mount.New(mount.Config{StagingDir: r.dir + "/staging"})
		}
		volumetest.TestPlugin(t, config)
	})
}

// needsToGrowExt4 skips the test if the kernel refuses to grow a mounted ext4.
func needsToGrowExt4(t *testing.T) {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &data[0]))
	if data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		mounttest.SkipWithout(t, "growext4", "CAP_SYS_RESOURCE is missing")
	}
}

// grown makes a file longer, and returns how long it is.
func grown(t *testing.T, file string, by int64) resource.Quantity {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, info.Size()+by))
	return *resource.NewQuantity(info.Size()+by, resource.BinarySI)
}

func deviceContract(links string, newDisk func(t *testing.T) string, format func(t *testing.T, disk string)) volumetest.Config[*testing.T] {
	newSpec := func(t *testing.T, options ...string) *volume.Spec {
		dir, err := os.MkdirTemp(links, "disk")
		require.NoError(t, err)
		require.NoError(t, os.Remove(dir))
		require.NoError(t, os.Symlink(newDisk(t), dir))
		s := deviceSpec(dir, "", options...)
		s.PersistentVolume.Name = filepath.Base(dir)
		return s
	}
	return volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			return local.New(local.Config{Mounter: m, DeviceLinks: []string{links}})
		},
		Spec: func(t *testing.T) *volume.Spec { return newSpec(t) },
		BlockSpec: func(t *testing.T) *volume.Spec {
			s := newSpec(t)
			mode := v1.PersistentVolumeBlock
			s.PersistentVolume.Spec.VolumeMode = &mode
			return s
		},
		ReadOnlySpec: func(t *testing.T) *volume.Spec {
			s := newSpec(t, "ro")
			disk, err := os.Readlink(s.PersistentVolume.Spec.Local.Path)
			require.NoError(t, err)
			format(t, disk)
			return s
		},
		Arguments:      volumetest.Arguments{FsGroup: volumetest.Honoured},
		SELinuxRelabel: true,
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
		},
		// The records stay after UnmountDevice: see the package's documentation.
		Keeps: func(name string) bool { return strings.HasPrefix(name, "devices/") },
		Invalid: map[string]*volume.Spec{
			"no path":       spec(""),
			"deeper":        spec(links + "/a/b"),
			"elsewhere":     spec("/dev/sda"),
			"type":          deviceSpec(links+"/x", "ntfs"),
			"contradiction": spec(links+"/x", "exec", "noexec"),
		},
	}
}
