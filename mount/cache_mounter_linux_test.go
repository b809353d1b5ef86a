package mount_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestContractOnEachFeed: a Mounter fulfills the contract with every feed of mount table
// changes.
func TestContractOnEachFeed(t *testing.T) {
	for feed := range mount.Feeds {
		t.Run(feed, func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			mounttest.TestInterface(t, mountersWithFeed(t, feed))
		})
	}
}

// mountersWithFeed returns a constructor of mounters with one feed. They are closed when t ends.
func mountersWithFeed(t *testing.T, feed string) func(*testing.T, mount.Config) mount.Interface {
	return func(inner *testing.T, config mount.Config) mount.Interface {
		config.StagingDir = filepath.Join(inner.TempDir(), "staging")
		m := mount.New(config)
		m.UseFeed(feed)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		return m
	}
}

func newMounterWithFeed(t *testing.T, feed string) mount.Interface {
	return mountersWithFeed(t, feed)(t, mount.Config{})
}

// TestContractFilteredFeeds: the contract holds if a filter forbids one of the calls of the
// cache.
func TestContractFilteredFeeds(t *testing.T) {
	skipIfShort(t)
	for name, call := range map[string]uint32{
		"statmount": unix.SYS_STATMOUNT, "listmount": unix.SYS_LISTMOUNT, "openat2": unix.SYS_OPENAT2,
		"fanotify_init": unix.SYS_FANOTIFY_INIT, "fanotify_mark": unix.SYS_FANOTIFY_MARK,
	} {
		t.Run(name, func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			forbid(t, call)
			mounttest.TestInterface(t, mountersWithFeed(t, ""))
		})
	}
}

// TestFilterDuringUse: answers stay right if a filter is installed while the cache is in use.
func TestFilterDuringUse(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "source", "target", "later")
	m := mount.New(mount.Config{})
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/source", Target: dir + "/target"}))
	requireRefs := func(want ...string) {
		t.Helper()
		refs, err := m.MountRefs(t.Context(), dir+"/source")
		require.NoError(t, err)
		require.Equal(t, want, refs)
	}
	requireRefs(dir + "/target")
	forbid(t, unix.SYS_STATMOUNT)
	requireRefs(dir + "/target")
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/source", Target: dir + "/later"}))
	requireRefs(dir+"/later", dir+"/target")
}

// TestQueriesDoNotReadTable: with a feed, queries about some mounts do not read the records of
// all mounts.
func TestQueriesDoNotReadTable(t *testing.T) {
	for _, feed := range []string{"events", "poll"} {
		t.Run(feed, func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			if err := mount.HasMountEvents(); err != nil {
				mounttest.SkipWithout(t, "mountevents", err) // and statmount(2) with all fields
			}
			dir := mkdirs(t, "source/sub", "target", "tmpfs", "link")
			require.NoError(t, os.Symlink(dir, dir+"/link/dir"))
			m := newMounterWithFeed(t, feed)
			_, err := m.MountRefs(t.Context(), dir)
			require.NoError(t, err)
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/source", Target: dir + "/target"}))
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "some name", Target: dir + "/tmpfs", FSType: "tmpfs"}))
			list, err := m.List(t.Context())
			require.NoError(t, err)
			at, _ := mount.Table(list).At(dir + "/tmpfs")

			t.Cleanup(mount.WithoutTable())
			refs, err := m.MountRefs(t.Context(), dir+"/link/dir/source")
			require.NoError(t, err)
			require.Equal(t, []string{dir + "/target"}, refs)
			infos, err := m.MountsFrom(t.Context(), "some name")
			require.NoError(t, err)
			require.Equal(t, []mount.Info{at}, infos)
			place, err := m.Resolve(t.Context(), dir+"/link/dir/target/sub")
			require.NoError(t, err)
			require.Equal(t, dir+"/target", place.Mount.Mountpoint)
			require.Equal(t, "/sub", place.Path)
		})
	}
}

// TestMountsFrom: MountsFrom compares a block device by its number, under any name, and
// another source by its spelling.
func TestMountsFrom(t *testing.T) {
	for feed := range mount.Feeds {
		t.Run(feed, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			m := newMounterWithFeed(t, feed)
			dir := mkdirs(t, "a", "b", "c", "links/deep")
			device := newExt4Device(t, dir+"/image")
			t.Cleanup(func() { require.NoError(t, errors.Join(unix.Unmount(dir+"/b", 0), unix.Unmount(dir+"/a", 0))) })
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: device, Target: dir + "/a", FSType: "ext4"}))
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/a", Target: dir + "/b"}))
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "x", Target: dir + "/c", FSType: "tmpfs"}))
			require.NoError(t, unix.Mknod(dir+"/node", unix.S_IFBLK|0o600, int(deviceNumber(t, device))))
			require.NoError(t, os.Symlink(device, dir+"/links/absolute"))
			require.NoError(t, os.Symlink("../absolute", dir+"/links/deep/relative"))
			require.NoError(t, os.Symlink("links/deep", dir+"/way"))
			// ".." is relative to the target of the link, not to the text of the path.
			require.NoError(t, os.Symlink("way/../absolute", dir+"/dots"))
			require.NoError(t, os.Symlink("loop", dir+"/loop"))

			for _, name := range []string{device, dir + "/node", dir + "/links/absolute", dir + "/way/relative", dir + "/dots"} {
				require.Equal(t, []string{dir + "/a", dir + "/b"}, mountpointsFrom(t, m, name), name)
			}
			require.Equal(t, []string{dir + "/c"}, mountpointsFrom(t, m, "x"))
			for _, name := range []string{"/dev/null", dir + "/none", dir + "/none/deeper", dir + "/image/deeper", dir, "/", "relative", "/dev/loop-control"} {
				require.Empty(t, mountpointsFrom(t, m, name), name)
			}
			_, err := m.MountsFrom(t.Context(), dir+"/loop")
			require.ErrorIs(t, err, unix.ELOOP)
			_, err = m.MountsFrom(t.Context(), "/"+strings.Repeat("x", unix.PathMax))
			require.ErrorIs(t, err, unix.ENAMETOOLONG)

			// The source of this tmpfs is the name of the device.
			require.NoError(t, unix.Mount(device, dir+"/c", "tmpfs", 0, ""))
			require.Equal(t, []string{dir + "/a", dir + "/b"}, mountpointsFrom(t, m, device))
		})
	}
}

func deviceNumber(t *testing.T, device string) uint64 {
	t.Helper()
	var s unix.Stat_t
	require.NoError(t, unix.Stat(device, &s))
	return s.Rdev
}

func mountpointsFrom(t *testing.T, m mount.Interface, source string) (mountpoints []string) {
	t.Helper()
	infos, err := m.MountsFrom(t.Context(), source)
	require.NoError(t, err)
	for _, info := range infos {
		mountpoints = append(mountpoints, info.Mountpoint)
	}
	return mountpoints
}

// TestMountsFromBtrfs: MountsFrom finds the mounts of a btrfs device and of its subvolumes, whose
// device numbers differ from that of the device.
func TestMountsFromBtrfs(t *testing.T) {
	for feed := range mount.Feeds {
		t.Run(feed, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			m := newMounterWithFeed(t, feed)
			dir := mkdirs(t, "a", "b", "c")
			device := newBtrfsDevice(t, dir+"/image")
			err := m.Mount(t.Context(), mount.Request{Source: device, Target: dir + "/a", FSType: "btrfs"})
			if err != nil {
				mounttest.SkipWithout(t, "btrfs", err)
			}
			t.Cleanup(func() { require.NoError(t, errors.Join(unix.Unmount(dir+"/b", 0), unix.Unmount(dir+"/a", 0))) })
			if out, err := exec.Command("btrfs", "subvolume", "create", dir+"/a/sub").CombinedOutput(); err != nil {
				mounttest.SkipWithout(t, "btrfs", string(out)+err.Error())
			}
			require.NoError(t, os.Symlink(device, dir+"/link"))
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/a/sub", Target: dir + "/b"}))
			require.Equal(t, []string{dir + "/a", dir + "/b"}, mountpointsFrom(t, m, device))
			require.Equal(t, []string{dir + "/a", dir + "/b"}, mountpointsFrom(t, m, dir+"/link"))
			refs, err := m.MountRefs(t.Context(), dir+"/a/sub")
			require.NoError(t, err)
			require.Equal(t, []string{dir + "/b"}, refs)
		})
	}
}

// newBtrfsDevice formats an image, and returns a loop device for it.
func newBtrfsDevice(t *testing.T, image string) (device string) {
	t.Helper()
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 256<<20))
	if out, err := exec.Command("mkfs.btrfs", "-q", "-f", image).CombinedOutput(); err != nil {
		mounttest.SkipWithout(t, "btrfs", string(out)+err.Error())
	}
	return testbed.Loop(t, image)
}

// TestMountsFromHungSource: MountsFrom returns in time if the source is a path on a file system
// that does not answer, and no cached answer waits for a lookup that hangs.
func TestMountsFromHungSource(t *testing.T) {
	for feed := range mount.Feeds {
		t.Run(feed, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			m := newMounterWithFeed(t, feed)
			dir := mkdirs(t, "hung", "bound", "below")
			mountHungFS(t, dir+"/hung")
			requireReturns(t, func() {
				require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/hung", Target: dir + "/bound"}))
				refs, err := m.MountRefs(t.Context(), dir+"/hung")
				require.NoError(t, err)
				require.Equal(t, []string{dir + "/bound"}, refs)
				require.Len(t, mountpointsFrom(t, m, "hung"), 2)
				ctx, cancel := context.WithCancelCause(t.Context())
				cause := errors.New("enough")
				go cancel(cause)
				_, err = m.MountsFrom(ctx, dir+"/hung/inside")
				require.ErrorIs(t, err, cause)
			})
		})
	}
}

// skipIfShort skips a test in short runs that repeats another test with other settings.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("repeats other tests: runs without -short")
	}
}
