package mount_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	serveFUSE()
	testbed.WaitTogether()
	mount.SetHelpers(
		func(t *testing.T) bool { return mounttest.Namespace(t) },
		func(t testing.TB, thing string, why any) { mounttest.SkipWithout(t, thing, why) },
	)
	mounttest.Main(m, map[string]func(mounttest.Process){"bind": bindProgram, "refs": refsProgram, "is mount point": isMountPointProgram})
}

// onEachTier runs a test in a namespace of its own with a mounter of each tier.
func onEachTier(t *testing.T, namespace func(mounttest.T) bool, test func(t *testing.T, m *mount.Mounter)) {
	for _, tier := range mount.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			if namespace(t) {
				test(t, mount.New(mount.Config{Tier: tier, StagingDir: filepath.Join(t.TempDir(), "staging")}))
			}
		})
	}
}

func mkdirs(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range names {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	// Mounts that a test leaves would prevent the removal of the directory.
	t.Cleanup(func() {
		table, err := mount.New(mount.Config{}).List(context.Background())
		require.NoError(t, err)
		for i := len(table) - 1; i >= 0; i-- {
			if strings.HasPrefix(table[i].Mountpoint, dir+"/") {
				_ = unix.Unmount(table[i].Mountpoint, unix.MNT_DETACH)
			}
		}
	})
	return dir
}

func isMountPoint(t *testing.T, path string) bool {
	t.Helper()
	is, err := mount.New(mount.Config{}).IsMountPoint(t.Context(), path)
	require.NoError(t, err)
	return is
}

func TestContractWithoutMountRoot(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	mount.WithoutMountRoot(true)
	mounttest.TestInterface(t, func(t *testing.T, config mount.Config) mount.Interface {
		config.Tier, config.StagingDir = mount.TierClassic, filepath.Join(t.TempDir(), "staging")
		return mount.New(config)
	}, exceptionsFor(mount.TierClassic)...)
	is, err := mount.New(mount.Config{}).IsMountPoint(t.Context(), "/")
	require.NoError(t, err)
	require.True(t, is)
}

// TestContractWithoutCachedLookups: the contract holds if each component of each path is looked
// up in a goroutine of its own.
func TestContractWithoutCachedLookups(t *testing.T) {
	skipIfShort(t)
	if !mounttest.Namespace(t) {
		return
	}
	mount.WithoutCachedLookups()
	mounttest.TestInterface(t, func(t *testing.T, config mount.Config) mount.Interface {
		config.StagingDir = filepath.Join(t.TempDir(), "staging")
		return mount.New(config)
	}, exceptionsFor(mount.TierAuto)...)
}

// TestContractFiltered: the contract holds if a system call filter, such as that of a container
// runtime, forbids the newer calls.
func TestContractFiltered(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	forbid(t, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_OPENAT2, unix.SYS_STATMOUNT)
	require.Equal(t, []mount.Tier{mount.TierClassic}, mount.Tiers())
	mounttest.TestInterface(t, func(t *testing.T, config mount.Config) mount.Interface {
		config.StagingDir = filepath.Join(t.TempDir(), "staging")
		return mount.New(config)
	}, exceptionsFor(mount.TierAuto)...)
}

// TestPartlyFilteredCalls: Mount succeeds if a filter forbids a call that the selection of the
// tier does not check.
func TestPartlyFilteredCalls(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	forbid(t, unix.SYS_FSOPEN)
	dir := mkdirs(t, "target")
	m := mount.New(mount.Config{StagingDir: dir + "/staging"})
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "x", Target: dir + "/target", FSType: "tmpfs"}))
	require.True(t, isMountPoint(t, dir+"/target"))
}

// forbid makes system calls fail with EPERM in all threads of the process.
func forbid(t *testing.T, calls ...uint32) {
	t.Helper()
	const loadNumber, jumpIfEqual, ret = 0x20, 0x15, 0x06 // BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
	filter := []unix.SockFilter{{Code: loadNumber}}
	for i, call := range calls {
		filter = append(filter, unix.SockFilter{Code: jumpIfEqual, K: call, Jt: uint8(len(calls) - i)})
	}
	const allow, fail = 0x7fff0000, 0x00050000 // SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
	filter = append(filter, unix.SockFilter{Code: ret, K: allow}, unix.SockFilter{Code: ret, K: fail | uint32(unix.EPERM)})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const setModeFilter, allThreads = 1, 1
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, allThreads, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		mounttest.SkipWithout(t, "seccomp", errno)
	}
}

// TestConcurrentMounters: independent mounters, as in several processes, mount one target at
// the same time, and one mount results.
func TestConcurrentMounters(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "source", "target")
	req := mount.Request{Source: dir + "/source", Target: dir + "/target", Options: []string{"ro"}}
	for range 200 {
		var mounters sync.WaitGroup
		for range 4 {
			mounters.Go(func() {
				if err := mount.New(mount.Config{}).Mount(t.Context(), req); err != nil {
					t.Error(err)
				}
			})
		}
		mounters.Wait()
		require.NoError(t, mount.New(mount.Config{}).Unmount(t.Context(), req.Target))
		if isMountPoint(t, req.Target) {
			if mount.HasStatmount() {
				t.Fatal("the target has more than one mount")
			}
			mounttest.SkipWithout(t, "statmount", "the kernel does not report the parent of a mount")
		}
	}
}

// TestWritableBindOfReadOnlyFS: a bind mount with the option "rw" of a read-only file system is
// ErrNotAsRequested, and no mount remains.
func TestWritableBindOfReadOnlyFS(t *testing.T) {
	onEachTier(t, mounttest.Namespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "source", "target")
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "x", Target: dir + "/source", FSType: "tmpfs", Options: []string{"ro"}}))
		req := mount.Request{Source: dir + "/source", Target: dir + "/target"}
		req.Options = []string{"rw"}
		require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrNotAsRequested)
		require.False(t, isMountPoint(t, req.Target))
		req.Options = nil
		require.NoError(t, m.Mount(t.Context(), req), "without rw the mount may be read-only")
	})
}

// TestErrorHasKernelMessage: an error holds the kernel's message about an option, and not the
// content of a secret option.
func TestErrorHasKernelMessage(t *testing.T) {
	onEachTier(t, mounttest.Namespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "target")
		req := mount.Request{Source: "x", Target: dir + "/target", FSType: "tmpfs", Options: []string{"no-such-option=1"}}
		err := m.Mount(t.Context(), req)
		require.ErrorIs(t, err, unix.EINVAL)
		if m.Tier() != mount.TierClassic {
			require.ErrorContains(t, err, "Unknown parameter 'no-such-option'")
			require.ErrorContains(t, err, "option no-such-option=1")
		}
		req.Options = nil
		req.Secrets = []mount.Secret{mount.NewSecret("size=hunter2")}
		err = m.Mount(t.Context(), req)
		require.ErrorIs(t, err, unix.EINVAL)
		require.NotContains(t, err.Error(), "hunter2")
		// The message of this file system repeats the unknown value.
		req.Secrets, req.FSType = []mount.Secret{mount.NewSecret("subset=hunter2")}, "proc"
		err = m.Mount(t.Context(), req)
		require.ErrorIs(t, err, unix.EINVAL)
		require.NotContains(t, err.Error(), "hunter2")

		for _, fsType := range []string{"nosuchfs", "bind", "rbind", "none", "auto"} {
			req.Secrets, req.FSType = nil, fsType
			err = m.Mount(t.Context(), req)
			require.ErrorIs(t, err, unix.ENODEV)
			require.ErrorIs(t, err, mount.ErrUnknownFSType)
			require.ErrorContains(t, err, fsType)
			require.False(t, isMountPoint(t, req.Target))
		}
	})
}

// TestBindIsPrivate: a bind mount of a directory in a shared mount does not join its peer group.
func TestBindIsPrivate(t *testing.T) {
	onEachTier(t, mounttest.Namespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "shared", "target")
		shared := dir + "/shared"
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "x", Target: shared, FSType: "tmpfs"}))
		require.NoError(t, unix.Mount("", shared, "", unix.MS_SHARED, ""))
		require.NoError(t, os.MkdirAll(shared+"/a/b", 0o755))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: shared + "/a", Target: dir + "/target"}))
		table, err := m.List(t.Context())
		require.NoError(t, err)
		at, ok := mount.Table(table).At(dir + "/target")
		require.True(t, ok)
		require.Empty(t, at.Tags)
	})
}

// TestRefsThroughLinks: MountRefs resolves symbolic links, and accepts a path that is not clean.
func TestRefsThroughLinks(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "real/source", "target")
	m := mount.New(mount.Config{})
	require.NoError(t, os.Symlink("real", dir+"/way"))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/real/source", Target: dir + "/target"}))
	for _, path := range []string{"/real/source", "/way/source", "/real/./source/", "/way//source"} {
		refs, err := m.MountRefs(t.Context(), dir+path)
		require.NoError(t, err)
		require.Equal(t, []string{dir + "/target"}, refs, path)
	}
	is, err := m.IsMountPoint(t.Context(), dir+"/way/../target")
	require.Error(t, err, "the path has ..")
	require.False(t, is)
}

func TestUnsafeStagingDirIsRefused(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "source", "target", "staging", "elsewhere")
	require.NoError(t, os.Chmod(dir+"/staging", 0o777))
	require.NoError(t, os.Symlink(dir+"/elsewhere", dir+"/link"))
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	for _, staging := range []string{"/staging", "/link", "/file", "/none/deeper"} {
		m := mount.New(mount.Config{Tier: mount.TierClassic, StagingDir: dir + staging})
		err := m.Mount(t.Context(), mount.Request{Source: dir + "/source", Target: dir + "/target"})
		require.ErrorContains(t, err, dir+staging)
		require.NotContains(t, err.Error(), "requires", "no privilege is missing")
		require.False(t, isMountPoint(t, dir+"/target"))
	}
}

func TestUnknownTierIsRefused(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "source", "target")
	for _, tier := range []mount.Tier{-1, 99} {
		err := mount.New(mount.Config{Tier: tier}).Mount(t.Context(), mount.Request{Source: dir + "/source", Target: dir + "/target"})
		var input *mount.InputError
		require.ErrorAs(t, err, &input)
		require.Equal(t, "Config.Tier", input.Field)
	}
}

// TestMountBlockDevice mounts a real file system from a block device.
func TestMountBlockDevice(t *testing.T) {
	onEachTier(t, mounttest.RootNamespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "target", "again")
		device := newExt4Device(t, dir+"/image")
		req := mount.Request{Source: device, Target: dir + "/target", FSType: "ext4", Options: []string{"noatime", "errors=remount-ro"}}
		for range 2 {
			require.NoError(t, m.Mount(t.Context(), req))
		}
		require.NoError(t, os.WriteFile(req.Target+"/file", []byte("x"), 0o600))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: device, Target: dir + "/again", FSType: "ext4"}))
		require.FileExists(t, dir+"/again/file")
		refs, err := m.MountRefs(t.Context(), req.Target)
		require.NoError(t, err)
		require.Equal(t, []string{dir + "/again"}, refs)
		table, err := m.List(t.Context())
		require.NoError(t, err)
		at, _ := mount.Table(table).At(req.Target)
		require.Equal(t, "ext4", at.FSType)
		require.Equal(t, device, at.Source)
		require.Contains(t, at.SuperOptions, "errors=remount-ro")
		require.NoError(t, m.Unmount(t.Context(), dir+"/again"))
		require.NoError(t, m.Unmount(t.Context(), req.Target))

		req.Options = []string{"ro"}
		require.NoError(t, m.Mount(t.Context(), req))
		require.ErrorIs(t, os.WriteFile(req.Target+"/file", nil, 0o600), unix.EROFS)
		require.NoError(t, m.Unmount(t.Context(), req.Target))

		req.FSType = "xfs"
		require.Error(t, m.Mount(t.Context(), req), "the device has ext4")
		req.FSType, req.Source = "ext4", "/dev/no-such-device"
		require.ErrorIs(t, m.Mount(t.Context(), req), unix.ENOENT)
		require.False(t, isMountPoint(t, req.Target))
	})
}

// newExt4Device formats an image, and returns a loop device for it.
func newExt4Device(t *testing.T, image string) (device string) {
	t.Helper()
	testbed.Image(t, image, 16<<20)
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		mounttest.SkipWithout(t, "loop", string(out)+err.Error())
	}
	return testbed.Loop(t, image)
}
