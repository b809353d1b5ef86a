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

// TestContractOnEachFeed: what tells of changes makes no difference.
func TestContractOnEachFeed(t *testing.T) {
	for feed := range mount.Feeds {
		t.Run(feed, func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			mounttest.TestInterface(t, mountersOn(t, feed))
		})
	}
}

// mountersOn makes mounters that are closed when t ends.
func mountersOn(t *testing.T, feed string) func(*testing.T, mount.Config) mount.Interface {
	return func(inner *testing.T, config mount.Config) mount.Interface {
		config.StagingDir = filepath.Join(inner.TempDir(), "staging")
		m := mount.New(config)
		m.UseFeed(feed)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		return m
	}
}

func mounterOn(t *testing.T, feed string) mount.Interface {
	return mountersOn(t, feed)(t, mount.Config{})
}

// TestContractFilteredFeeds: the calls that the cache needs may be forbidden, each.
func TestContractFilteredFeeds(t *testing.T) {
	repeats(t)
	for name, call := range map[string]uint32{
		"statmount": unix.SYS_STATMOUNT, "listmount": unix.SYS_LISTMOUNT, "openat2": unix.SYS_OPENAT2,
		"fanotify_init": unix.SYS_FANOTIFY_INIT, "fanotify_mark": unix.SYS_FANOTIFY_MARK,
	} {
		t.Run(name, func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			forbid(t, call)
			mounttest.TestInterface(t, mountersOn(t, ""))
		})
	}
}

// TestFilteredLater: a filter that comes while the cache is in use makes no answer
// a wrong one.
func TestFilteredLater(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "source", "target", "later")
	m := mount.New(mount.Config{})
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/source", Target: dir + "/target"}))
	ask := func(want ...string) {
		t.Helper()
		refs, err := m.MountRefs(t.Context(), dir+"/source")
		require.NoError(t, err)
		require.Equal(t, want, refs)
	}
	ask(dir + "/target")
	forbid(t, unix.SYS_STATMOUNT)
	ask(dir + "/target")
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/source", Target: dir + "/later"}))
	ask(dir+"/later", dir+"/target")
}

// TestTableIsNotRead: with a feed, questions about some mounts do not read all.
func TestTableIsNotRead(t *testing.T) {
	for _, feed := range []string{"events", "poll"} {
		t.Run(feed, func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			if err := mount.HasMountEvents(); err != nil {
				mounttest.SkipWithout(t, "mountevents", err) // and what is as new
			}
			dir := mkdirs(t, "source/sub", "target", "tmpfs", "link")
			require.NoError(t, os.Symlink(dir, dir+"/link/dir"))
			m := mounterOn(t, feed)
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

// TestMountsFrom: a block device by its number, whatever its name; anything else by
// how it is written.
func TestMountsFrom(t *testing.T) {
	for feed := range mount.Feeds {
		t.Run(feed, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			m := mounterOn(t, feed)
			dir := mkdirs(t, "a", "b", "c", "links/deep")
			device := ext4(t, dir+"/image")
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: device, Target: dir + "/a", FSType: "ext4"}))
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/a", Target: dir + "/b"}))
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "x", Target: dir + "/c", FSType: "tmpfs"}))
			require.NoError(t, unix.Mknod(dir+"/node", unix.S_IFBLK|0o600, int(rdev(t, device))))
			require.NoError(t, os.Symlink(device, dir+"/links/absolute"))
			require.NoError(t, os.Symlink("../absolute", dir+"/links/deep/relative"))
			require.NoError(t, os.Symlink("links/deep", dir+"/way"))
			// What ".." leads to is another than the path's text says.
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

			// A mount that has the device's name, but is of another.
			require.NoError(t, unix.Mount(device, dir+"/c", "tmpfs", 0, ""))
			require.Equal(t, []string{dir + "/a", dir + "/b"}, mountpointsFrom(t, m, device))
		})
	}
}

func rdev(t *testing.T, device string) uint64 {
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

// TestMountsFromBtrfs: its device has another number than its mounts, and so have
// its subvolumes.
func TestMountsFromBtrfs(t *testing.T) {
	for feed := range mount.Feeds {
		t.Run(feed, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			m := mounterOn(t, feed)
			dir := mkdirs(t, "a", "b", "c")
			device := btrfs(t, dir+"/image")
			err := m.Mount(t.Context(), mount.Request{Source: device, Target: dir + "/a", FSType: "btrfs"})
			if err != nil {
				mounttest.SkipWithout(t, "btrfs", err)
			}
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

// btrfs makes a file system in a file, and a loop device of it.
func btrfs(t *testing.T, image string) (device string) {
	t.Helper()
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 256<<20))
	if out, err := exec.Command("mkfs.btrfs", "-q", "-f", image).CombinedOutput(); err != nil {
		mounttest.SkipWithout(t, "btrfs", string(out)+err.Error())
	}
	return testbed.Loop(t, image)
}

// TestHungMountsFrom: a source that is a path on a file system that does not answer
// holds nobody up, and no cached answer waits for one that hangs.
func TestHungMountsFrom(t *testing.T) {
	for feed := range mount.Feeds {
		t.Run(feed, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			m := mounterOn(t, feed)
			dir := mkdirs(t, "hung", "bound", "below")
			mountHungFS(t, dir+"/hung")
			within(t, func() {
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

// repeats leaves a test that is much like others, and the same on every kernel, out
// of short runs: where a whole run is made besides, and time is short.
func repeats(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it repeats others, and runs without -short")
	}
}
