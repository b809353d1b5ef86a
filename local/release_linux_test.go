package local_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// detached binds a pod's volume elsewhere, opens a file there, and detaches the bind mount:
// the file system lives until the file is closed, and no mount table shows why.
func (r *rig) detached(at string) *os.File {
	r.t.Helper()
	elsewhere := r.dir + "/elsewhere"
	require.NoError(r.t, os.MkdirAll(elsewhere, 0o755))
	require.NoError(r.t, unix.Mount(at, elsewhere, "", unix.MS_BIND, ""))
	file, err := os.Create(elsewhere + "/open")
	require.NoError(r.t, err)
	require.NoError(r.t, unix.Unmount(elsewhere, unix.MNT_DETACH))
	return file
}

// TestHiddenMountIsInUse: a device is not released as long as its file system lives on
// without a mount point. Its own volume is mounted again meanwhile, and no other is.
func TestHiddenMountIsInUse(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			r := newRig(t, fsType)
			if r == nil {
				return
			}
			s := deviceSpec(r.link("disk", r.disk("disk", diskFor[fsType])), fsType)
			r.mountFirst(s)
			at, err := r.setUp(s, "1", volume.MounterArgs{})
			require.NoError(t, err)
			user := r.detached(at)
			r.tearDown("1")
			for range 2 {
				err = r.unmountDevice(s)
				require.ErrorIs(t, err, local.ErrDeviceInUse)
				require.Equal(t, volume.Transient, volume.KindOf(err))
				require.NoDirExists(t, r.shared(s), "it is unmounted")
			}
			require.Empty(t, mountsBelow(t, r.mount, r.dir), "no mount point is left")

			other := deviceSpec(r.links+"/disk", fsType)
			other.PersistentVolume.Name, other.PersistentVolume.UID = "other", "other"
			require.ErrorIs(t, r.mountDevice(other), local.ErrDeviceInUse)
			anew := deviceSpec(r.links+"/disk", fsType)
			anew.PersistentVolume.UID = "anew"
			require.ErrorIs(t, r.mountDevice(anew), local.ErrDeviceInUse, "another of its name")

			r.restart(local.Config{})
			require.NoError(t, r.mountDevice(s), "the next pod of the volume gets it")
			at, err = r.setUp(s, "2", volume.MounterArgs{})
			require.NoError(t, err)
			_, err = user.WriteString("late")
			require.NoError(t, err)
			text, err := os.ReadFile(at + "/open")
			require.NoError(t, err)
			require.Equal(t, "late", string(text), "it is the same file system")
			r.tearDown("2")
			require.ErrorIs(t, r.unmountDevice(s), local.ErrDeviceInUse)
			require.NoError(t, user.Close())
			require.Eventually(t, func() bool { return r.unmountDevice(s) == nil }, longWait, tick)
			r.mountFirst(s)
			require.NoError(t, r.unmountDevice(s))
		})
	}
}

// TestMountedElsewhere: a device with another visible mount is released in time, and not
// mounted beside it.
func TestMountedElsewhere(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	s := deviceSpec(r.link("disk", d), "ext4")
	r.mountFirst(s)
	elsewhere := r.dir + "/elsewhere"
	require.NoError(t, os.Mkdir(elsewhere, 0o755))
	require.NoError(t, r.mount.Mount(t.Context(), mount.Request{Source: d.device, Target: elsewhere, FSType: "ext4"}))
	require.NoError(t, r.unmountDevice(s))
	require.ErrorIs(t, r.mountDevice(s), local.ErrDeviceInUse)
	require.NoError(t, r.mount.Unmount(t.Context(), elsewhere))
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))
}
