package local_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// deviceVerbs are the killed operations, each on a volume on the disk "disk".
var deviceVerbs = map[string]func(n *node, dir string) error{
	"mount device":       mountAs("ext4"),
	"mount device xfs":   mountAs("xfs"),
	"mount device btrfs": mountAs("btrfs"),
	"unmount device": func(n *node, dir string) error {
		m, err := n.plugin.NewDeviceMounter()
		if err != nil {
			return err
		}
		at, err := m.GetDeviceMountPath(deviceSpec(dir+"/links/disk", ""))
		if err != nil {
			return err
		}
		u, err := n.plugin.NewDeviceUnmounter()
		if err != nil {
			return err
		}
		return u.UnmountDevice(context.Background(), at)
	},
	"set up": func(n *node, dir string) error {
		m, err := n.plugin.NewMounter(deviceSpec(dir+"/links/disk", "ext4"), pod("1"))
		if err != nil {
			return err
		}
		group := int64(2000)
		return m.SetUp(context.Background(), volume.MounterArgs{FsGroup: &group})
	},
	"tear down": func(n *node, _ string) error {
		u, err := n.plugin.NewUnmounter("pv", "1")
		if err != nil {
			return err
		}
		return u.TearDown(context.Background())
	},
	"map": func(n *node, dir string) error {
		m, err := n.plugin.NewBlockVolumeMapper(blockSpec(dir+"/links/disk"), pod("1"))
		if err != nil {
			return err
		}
		if _, err := m.SetUpDevice(context.Background(), volume.BlockVolumePaths{}); err != nil {
			return err
		}
		_, err = m.MapPodDevice(context.Background(), volume.BlockVolumePaths{})
		return err
	},
	"unmap": func(n *node, dir string) error {
		u, err := n.plugin.NewBlockVolumeUnmapper("pv", "1")
		if err != nil {
			return err
		}
		if err := u.UnmapPodDevice(context.Background()); err != nil {
			return err
		}
		global, err := u.GetGlobalMapPath(blockSpec(dir + "/links/disk"))
		if err != nil {
			return err
		}
		return u.TearDownDevice(context.Background(), volume.BlockVolumePaths{GlobalMapPath: global})
	},
}

func mountAs(fsType string) func(n *node, dir string) error {
	return func(n *node, dir string) error {
		m, err := n.plugin.NewDeviceMounter()
		if err != nil {
			return err
		}
		s := deviceSpec(dir+"/links/disk", fsType)
		at, err := m.GetDeviceMountPath(s)
		if err != nil {
			return err
		}
		return m.MountDevice(context.Background(), s, at, volume.DeviceMounterArgs{})
	}
}

// TestDeviceKilled kills the process at any place in a verb. The next process repeats the
// verb, and reaches the desired result: nothing is left behind, and the content of the
// device is complete.
func TestDeviceKilled(t *testing.T) {
	type sweep struct {
		before []string // verbs that ran earlier
		verb   string
		after  []string // takes it down
		data   bool     // the device is formatted, and has a file
		mounts int      // once it is done
	}
	sweeps := map[string]sweep{
		"format":         {nil, "mount device", []string{"unmount device"}, false, 1},
		"mount device":   {nil, "mount device", []string{"unmount device"}, true, 1},
		"unmount device": {[]string{"mount device"}, "unmount device", nil, true, 0},
		"set up":         {[]string{"mount device"}, "set up", []string{"tear down", "unmount device"}, true, 2},
		"tear down":      {[]string{"mount device", "set up"}, "tear down", []string{"unmount device"}, true, 1},
		"map":            {nil, "map", []string{"unmap"}, true, 0},
		"unmap":          {[]string{"map"}, "unmap", nil, true, 0},
	}
	for _, fsType := range []string{"xfs", "btrfs"} {
		if testbed.Long() {
			sweeps["format "+fsType] = sweep{nil, "mount device " + fsType, []string{"unmount device"}, false, 1}
		}
	}
	if testing.Short() { // other verbs, or tests of directories, cover them
		delete(sweeps, "mount device")
		delete(sweeps, "unmount device")
		delete(sweeps, "set up")
	}
	for name, test := range sweeps {
		t.Run(name, func(t *testing.T) {
			_, fsType, _ := strings.Cut(name, "format ")
			r := newRig(t, cmp.Or(fsType, "ext4"))
			if r == nil {
				return
			}
			var d testDisk
			do := func(verb string) {
				t.Helper()
				// Work of a killed process in the kernel may end a moment later.
				require.Eventually(t, func() bool {
					r.restart(local.Config{})
					err := deviceVerbs[verb](r.node, r.dir)
					require.True(t, err == nil || volume.KindOf(err) != volume.Final, "%s: %v", verb, err)
					return err == nil
				}, longWait, tick, verb)
			}
			fresh := func() {
				t.Helper()
				_ = os.Remove(r.dir + "/disk.image")
				d = r.disk("disk", cmp.Or(diskFor[fsType], 4<<20))
				r.link("disk", d)
				require.NoError(t, r.plugin.Forget(t.Context(), "pv"))
			}
			fresh()
			s := deviceSpec(r.links+"/disk", "ext4")
			if test.data {
				do("mount device")
				require.NoError(t, os.WriteFile(r.shared(s)+"/precious", []byte("data"), 0o600))
				do("unmount device")
			}
			program := func() *exec.Cmd {
				if !test.data {
					fresh()
				}
				for _, verb := range test.before {
					do(verb)
				}
				return mounttest.Program(test.verb, r.dir)
			}
			var places []string
			kills := mounttest.KillAtEachCall(t, program, func(place string) {
				places = append(places, place)
				do(test.verb)
				require.Len(t, mountsBelow(t, r.mount, r.dir), test.mounts, place)
				for _, verb := range test.after {
					do(verb)
				}
				require.Empty(t, mountsBelow(t, r.mount, r.dir), place)
				r.requireReleased(d)
				requireNothingLeft(t, r, place)
			})
			if test.data { // a loss is permanent: one check suffices
				do("mount device")
				text, err := os.ReadFile(r.shared(s) + "/precious")
				require.NoError(t, err)
				require.Equal(t, "data", string(text))
				do("unmount device")
			}
			t.Logf("killed at %d places: %v", kills, places)
			require.Positive(t, kills)
		})
	}
}

// requireNothingLeft: of all directories and files only the record is left, and the
// directories that volumes share.
func requireNothingLeft(t *testing.T, r *rig, place string) {
	t.Helper()
	for _, pattern := range []string{
		"/staging/*", "/root/pods/1/volumes/*/*", "/root/pods/1/volumeDevices/*/*",
		"/root/plugins/*/*/mounts/*", "/root/plugins/*/*/volumeDevices/*",
	} {
		left, err := filepath.Glob(r.dir + pattern)
		require.NoError(t, err)
		require.Empty(t, left, place)
	}
}
