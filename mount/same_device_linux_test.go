package mount_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestOneDeviceTwoNames: a repeated Mount of a block device by another name changes nothing, and another
// device by the same name is another mount.
func TestOneDeviceTwoNames(t *testing.T) {
	for fsType, format := range map[string]func(*testing.T, string) string{"ext4": newExt4Device, "btrfs": newBtrfsDevice} {
		t.Run(fsType, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			m := mount.New(mount.Config{})
			defer m.Close()
			dir := mkdirs(t, "target", "links")
			device, other := format(t, dir+"/image"), format(t, dir+"/other")
			node, link := dir+"/node", dir+"/links/by-id"
			require.NoError(t, unix.Mknod(node, unix.S_IFBLK|0o600, int(deviceNumber(t, device))))
			require.NoError(t, os.Symlink("../node", link))
			names := []string{device, node, link}
			for _, first := range names {
				err := m.Mount(t.Context(), mount.Request{Source: first, Target: dir + "/target", FSType: fsType})
				if err != nil && fsType == "btrfs" {
					mounttest.SkipWithout(t, "btrfs", err)
				}
				require.NoError(t, err)
				for _, again := range names {
					require.NoError(t, m.Mount(t.Context(), mount.Request{Source: again, Target: dir + "/target", FSType: fsType}), again)
				}
				require.ErrorIs(t, m.Mount(t.Context(), mount.Request{Source: other, Target: dir + "/target", FSType: fsType}), mount.ErrMounted)
				require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
				require.Empty(t, mountpointsFrom(t, m, device))
			}
			if fsType == "btrfs" { // its mount shows a path, not a number
				requireSubvolumes(t, m, device, dir)
				return
			}
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: node, Target: dir + "/target", FSType: fsType}))
			require.NoError(t, os.Remove(node))
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: node, Target: dir + "/target", FSType: fsType}), "the name has gone")
			require.NoError(t, unix.Mknod(node, unix.S_IFBLK|0o600, int(deviceNumber(t, other))))
			require.ErrorIs(t, m.Mount(t.Context(), mount.Request{Source: node, Target: dir + "/target", FSType: fsType}), mount.ErrMounted)
			require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
		})
	}
}

// requireSubvolumes requires that a repeated Mount of a subvolume changes nothing, and that another one is another
// mount.
func requireSubvolumes(t *testing.T, m *mount.Mounter, device, dir string) {
	t.Helper()
	request := func(options ...string) mount.Request {
		return mount.Request{Source: device, Target: dir + "/target", FSType: "btrfs", Options: options}
	}
	require.NoError(t, m.Mount(t.Context(), request()))
	for _, name := range []string{"one", "other"} {
		if out, err := exec.Command("btrfs", "subvolume", "create", dir+"/target/"+name).CombinedOutput(); err != nil {
			mounttest.SkipWithout(t, "btrfs", string(out)+err.Error())
		}
	}
	require.ErrorIs(t, m.Mount(t.Context(), request("subvol=one")), mount.ErrMounted)
	require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
	for _, option := range []string{"subvol=one", "subvol=/one", "subvolid=256"} {
		for range 2 {
			require.NoError(t, m.Mount(t.Context(), request(option)), option)
		}
		for _, other := range []mount.Request{request("subvol=other"), request("subvolid=257"), request()} {
			require.ErrorIs(t, m.Mount(t.Context(), other), mount.ErrMounted, option)
		}
		require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
	}
}
