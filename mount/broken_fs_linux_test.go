package mount_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// A brokenFS is a file system that is mounted at path and serves no requests until it is
// repaired.
type brokenFS struct {
	path         string
	source       string
	unmountWaits bool // an unmount waits for the end of the file system
	isDead       bool // the file system refuses all requests
	isDisk       bool // the file system answers statfs(2): a busy mount of it stays
	repair       func()
}

// brokenKinds mount the kinds of broken file systems.
var brokenKinds = map[string]func(t *testing.T, path, dir string) brokenFS{
	"hung":    hungServer,
	"fuseblk": hungFuseblk,
	"dead":    deadDaemon,
	"disk":    deadDisk,
}

// mountBroken mounts a broken file system in a new directory.
func mountBroken(t *testing.T, mountKind func(t *testing.T, path, dir string) brokenFS) brokenFS {
	t.Helper()
	dir := mkdirs(t, "hung")
	return mountKind(t, dir+"/hung", dir)
}

// hungServer mounts a file system that does not answer, and whose unmount needs no answer.
func hungServer(t *testing.T, path, _ string) brokenFS {
	fs := mountHungFS(t, path)
	return brokenFS{path: path, source: "hung", repair: fs.release}
}

// hungFuseblk mounts a file system that does not answer, and whose unmount waits for an answer.
func hungFuseblk(t *testing.T, path, dir string) brokenFS {
	device := newEmptyDevice(t, dir+"/image")
	fs := mountFUSEOn(t, device, path, "fuseblk", nil)
	_, err := os.Stat(path) // waits for the initialization
	require.NoError(t, err)
	fs.hang()
	return brokenFS{path: path, source: device, unmountWaits: true, repair: fs.release}
}

// deadDaemon mounts a FUSE file system without a daemon: the kernel refuses all requests.
func deadDaemon(t *testing.T, path, _ string) brokenFS {
	mountFUSE(t, path, nil).kill()
	return brokenFS{path: path, source: "hung", isDead: true, repair: func() {}}
}

// deadDisk mounts a file system with unwritten data on a device that does not answer.
func deadDisk(t *testing.T, path, dir string) brokenFS {
	below := mkdir(t, dir+"/below")
	image := dir + "/image"
	require.NoError(t, os.WriteFile(image, make([]byte, 8<<20), 0o600))
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image).CombinedOutput(); err != nil {
		mounttest.SkipWithout(t, "loop", string(out)+err.Error())
	}
	disk, err := os.ReadFile(image)
	require.NoError(t, err)
	fs := mountFUSE(t, below, disk)
	device := loopDevice(t, below+"/disk")
	require.NoError(t, unix.Mount(device, path, "ext4", 0, ""))
	require.NoError(t, os.WriteFile(path+"/unwritten", []byte("this"), 0o600))
	fs.hang()
	return brokenFS{path: path, source: device, unmountWaits: true, isDisk: true, repair: fs.release}
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(path, 0o755))
	return path
}

// onEachBrokenFS runs a test with each kind of broken file system, in a namespace of its own.
func onEachBrokenFS(t *testing.T, test func(t *testing.T, s brokenFS)) {
	t.Parallel()
	for name, mountKind := range brokenKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !mounttest.RootNamespace(t) {
				return
			}
			s := mountBroken(t, mountKind)
			test(t, s)
		})
	}
}

// callBriefly makes a call with a context that ends after 50 ms, and returns the error of the
// call.
func callBriefly(t *testing.T, call func(ctx context.Context) error) (err error) {
	t.Helper()
	requireReturns(t, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err = call(ctx)
	})
	return err
}

// TestCallsEndWithContext: every method returns soon after its context ends, even if the file
// system does not answer. Its error matches the mount table at that time, and repeated calls do
// not accumulate goroutines.
func TestCallsEndWithContext(t *testing.T) {
	onEachBrokenFS(t, func(t *testing.T, s brokenFS) {
		m := mount.New(mount.Config{})
		goroutines := runtime.NumGoroutine()
		calls := fsCalls(t, m, s)
		before := listMounts(t)
		for range 2 {
			for name, call := range calls {
				err := callBriefly(t, call.call)
				require.NotErrorAs(t, err, new(*mount.InputError), "%s: invalid request", name)
				switch {
				case !call.mayHaveChanged(err):
					requireCertain(t, err, name)
				case err == nil:
					call.requireCompletion(t, name, call.again)
				default:
					call.requireCompletion(t, name, call.want)
				}
				require.Equal(t, before, listMounts(t), "%s: %v", name, err)
			}
		}
		few := func() bool { return runtime.NumGoroutine() <= goroutines+16 }
		require.Eventually(t, few, time.Minute, 10*time.Millisecond, "goroutines of repeated calls accumulate")
		for name, call := range calls {
			if !call.needsAnswer {
				call.requireCompletion(t, name, call.want)
			}
		}
		for range 4 {
			err := callBriefly(t, func(ctx context.Context) error { return m.UnmountTree(ctx, s.path) })
			requireCertain(t, err, "unmount tree")
		}
		s.repair()
		unmountEventually(t, m, s.path)
		require.False(t, isMountPoint(t, s.path))
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 }, time.Minute, 10*time.Millisecond)
	})
}

// requireCertain requires that an error does not leave the mount table uncertain. This holds on
// kernels with statmount(2), which returns the type of the file system of the target's
// directory.
func requireCertain(t *testing.T, err error, what string) {
	t.Helper()
	if mount.HasStatmount() {
		require.NotErrorIs(t, err, mount.ErrUncertain, what)
	}
}

// unmountBriefly unmounts path by calls whose contexts end after 50 ms, until path is no
// mount point.
func unmountBriefly(t *testing.T, m *mount.Mounter, path string) (err error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); isMountPoint(t, path); {
		require.True(t, time.Now().Before(deadline), "still mounted: %v", err)
		err = callBriefly(t, func(ctx context.Context) error { return m.Unmount(ctx, path) })
	}
	return err
}

// TestUnmountBrokenFS: an idle mount of a broken file system is unmounted, and its path accepts a
// new mount at once. Each call returns ErrNotEnded until the file system has ended.
func TestUnmountBrokenFS(t *testing.T) {
	onEachBrokenFS(t, func(t *testing.T, s brokenFS) {
		m := mount.New(mount.Config{})
		err := unmountBriefly(t, m, s.path)
		if s.unmountWaits {
			for range 3 {
				require.ErrorIs(t, err, mount.ErrNotEnded)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				requireCertain(t, err, "unmount")
				err = callBriefly(t, func(ctx context.Context) error { return m.Unmount(ctx, s.path) })
			}
		}
		later := mount.Request{Source: "later", FSType: "tmpfs", Target: s.path}
		require.NoError(t, m.Mount(t.Context(), later), "the path accepts a new mount")
		s.repair()
		requireReturns(t, func() {
			require.NoError(t, m.Unmount(t.Context(), s.path), "the call waits for the ends of both file systems")
			require.NoError(t, m.Unmount(t.Context(), s.path))
		})
		if s.unmountWaits {
			fd, err := unix.Open(s.source, unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0)
			require.NoError(t, err, "the device is in use")
			require.NoError(t, unix.Close(fd))
		}
	})
}

// TestLateUnmountKeepsNewMount: an abandoned unmount changes no later mount when it completes.
func TestLateUnmountKeepsNewMount(t *testing.T) {
	onEachBrokenFS(t, func(t *testing.T, s brokenFS) {
		m := mount.New(mount.Config{})
		goroutines := runtime.NumGoroutine()
		_ = unmountBriefly(t, m, s.path)
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "later", FSType: "tmpfs", Target: s.path}))
		s.repair()
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 }, time.Minute, 10*time.Millisecond)
		require.True(t, isMountPoint(t, s.path))
		require.NoError(t, m.Unmount(t.Context(), s.path))
	})
}

// holdBusy keeps a mount busy until leave is called. It sends no request to the file system.
func holdBusy(t *testing.T, path string) (leave func()) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	left := false
	leave = func() {
		if !left {
			left = true
			_ = unix.Close(fd)
		}
	}
	t.Cleanup(leave)
	return leave
}

// TestUnmountPolicies: the unmount policy decides whether a busy mount is unmounted.
func TestUnmountPolicies(t *testing.T) {
	t.Parallel()
	const grace = 200 * time.Millisecond
	policies := map[string]mount.UnmountPolicy{
		"plain":      {Last: mount.UnmountPlain, Grace: grace},
		"force":      {Last: mount.UnmountForce, Grace: grace},
		"quarantine": {Grace: grace},
	}
	wants := map[string]map[string]error{
		"hung":    {"plain": mount.ErrNotAnswering, "force": mount.ErrNotAnswering},
		"fuseblk": {"plain": mount.ErrNotAnswering, "force": mount.ErrNotAnswering},
		"dead":    {"plain": mount.ErrNotAnswering, "force": mount.ErrNotAnswering},
		"disk":    {"plain": mount.ErrBusy, "force": mount.ErrBusy, "quarantine": mount.ErrBusy},
	}
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, mountKind := range brokenKinds {
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					if !mounttest.RootNamespace(t) {
						return
					}
					s := mountBroken(t, mountKind)
					policy := policy
					if kind == "disk" {
						policy.Grace = time.Minute // the answer may be late
					}
					leave := holdBusy(t, s.path)
					m := mount.New(mount.Config{Unmount: policy})
					err := unmountAfterGrace(t, m, s)
					want := wants[kind][name]
					require.ErrorIs(t, err, want)
					require.Equal(t, want != nil, isMountPoint(t, s.path))
					if want != nil {
						require.ErrorIs(t, err, mount.ErrBusy)
						if errors.Is(want, mount.ErrBusy) {
							require.NotErrorIs(t, err, mount.ErrNotAnswering)
						}
					}
					s.repair()
					leave()
					unmountEventually(t, m, s.path)
				})
			}
		})
	}
}

// unmountAfterGrace unmounts when the grace period is over. It retries while a slow machine has
// not sent the probe to the file system, which then counts as answering.
func unmountAfterGrace(t *testing.T, m *mount.Mounter, s brokenFS) (err error) {
	t.Helper()
	requireReturns(t, func() {
		err = m.Unmount(t.Context(), s.path)
		for !s.isDisk && errors.Is(err, mount.ErrBusy) && !errors.Is(err, mount.ErrNotAnswering) {
			err = m.Unmount(t.Context(), s.path)
		}
	})
	return err
}

// TestForceWakesWaitingCalls: a forced unmount ends the system calls that wait for a hung
// server. Then the mount is idle, and the unmount succeeds.
func TestForceWakesWaitingCalls(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	s := mountBroken(t, hungServer)
	woken := make(chan error, 1)
	go func() { woken <- unix.Access(s.path, unix.R_OK) }()
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Last: mount.UnmountForce, Grace: 100 * time.Millisecond}})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, m.Unmount(t.Context(), s.path))
	}, time.Minute, time.Millisecond)
	require.False(t, isMountPoint(t, s.path))
	requireReturns(t, func() { <-woken })
}

// TestBusySlowMountStays: a busy mount stays mounted if its file system answers, however late.
func TestBusySlowMountStays(t *testing.T) {
	t.Parallel()
	if !mounttest.RootNamespace(t) {
		return
	}
	delay, grace := time.Second, time.Minute
	if os.Getenv("VOLUMEKIT_LONG") != "" {
		delay = 20 * time.Second
	}
	path := mkdirs(t, "hung") + "/hung"
	fs := mountHungFS(t, path)
	holdBusy(t, path)
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: grace}})
	timer := time.AfterFunc(delay, fs.release)
	defer timer.Stop()
	err := m.Unmount(t.Context(), path)
	require.ErrorIs(t, err, mount.ErrBusy)
	require.NotErrorIs(t, err, mount.ErrNotAnswering)
	require.True(t, isMountPoint(t, path))
}

// TestGraceSpansCalls: calls that end before the grace period is over, and are repeated, do not
// restart the grace period; they share one probe of the file system.
func TestGraceSpansCalls(t *testing.T) {
	testbed.RealTime(t)
	if !mounttest.RootNamespace(t) {
		return
	}
	s := mountBroken(t, hungServer)
	holdBusy(t, s.path)
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: 300 * time.Millisecond}})
	goroutines := runtime.NumGoroutine()
	for deadline := time.Now().Add(time.Minute); isMountPoint(t, s.path); {
		require.True(t, time.Now().Before(deadline), "the mount stays after the grace period")
		err := callBriefly(t, func(ctx context.Context) error { return m.Unmount(ctx, s.path) })
		requireCertain(t, err, "unmount")
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+64)
	}
}

// Environment variables of the child process of TestExitDuringUnmount.
const (
	exitVar  = "VOLUMEKIT_TEST_EXIT"   // the path to unmount
	inUseVar = "VOLUMEKIT_TEST_IN_USE" // "true": the mount is in use
)

// unmountAndExit unmounts path and exits: after one attempt if the mount is in use, otherwise
// after the mount has left the mount table.
func unmountAndExit(path string) {
	m := mount.New(mount.Config{})
	for range 1000 {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		err := m.Unmount(ctx, path)
		cancel()
		if err == nil || errors.Is(err, mount.ErrNotEnded) || os.Getenv(inUseVar) == "true" {
			break
		}
	}
	os.Exit(17)
}

// TestExitDuringUnmount: a process can exit while an unmount waits for a broken file system.
func TestExitDuringUnmount(t *testing.T) {
	if path := os.Getenv(exitVar); path != "" {
		unmountAndExit(path)
	}
	onEachBrokenFS(t, func(t *testing.T, s brokenFS) {
		for _, inUse := range []bool{true, false} {
			leave := func() {}
			if inUse {
				leave = holdBusy(t, s.path)
			}
			c := exec.Command("/proc/self/exe", "-test.run=^TestExitDuringUnmount$")
			c.Env = append(os.Environ(), exitVar+"="+s.path, inUseVar+"="+strconv.FormatBool(inUse))
			requireReturns(t, func() {
				var exit *exec.ExitError
				out, err := c.CombinedOutput()
				require.ErrorAs(t, err, &exit, string(out))
				require.Equal(t, 17, exit.ExitCode(), string(out))
			})
			require.Equal(t, inUse, isMountPoint(t, s.path))
			leave()
		}
	})
}

// TestUnmountWithoutHold: on a kernel without holds of superblocks, an unmount that hangs keeps
// its target locked until the unmount ends.
func TestUnmountWithoutHold(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	s := mountBroken(t, hungFuseblk)
	target := mkdirs(t, "target") + "/target"
	forbid(t, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT)
	m := mount.New(mount.Config{StagingDir: mkdirs(t) + "/staging"})
	unmount := func(ctx context.Context) error { return m.Unmount(ctx, s.path) }
	err := callBriefly(t, unmount)
	for deadline := time.Now().Add(time.Minute); !errors.Is(err, mount.ErrUncertain); err = callBriefly(t, unmount) {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, time.Now().Before(deadline))
	}
	for _, call := range []func(ctx context.Context) error{
		unmount,
		func(ctx context.Context) error {
			return m.Mount(ctx, mount.Request{Source: "later", FSType: "tmpfs", Target: s.path})
		},
	} {
		err := callBriefly(t, call)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the target is locked")
		require.NotErrorIs(t, err, mount.ErrUncertain)
	}
	other := mount.Request{Source: "other", FSType: "tmpfs", Target: target}
	require.NoError(t, m.Mount(t.Context(), other), "other targets are not locked")
	require.NoError(t, m.Unmount(t.Context(), target))
	s.repair()
	requireReturns(t, func() {
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "later", FSType: "tmpfs", Target: s.path}))
	})
	require.True(t, isMountPoint(t, s.path))
	require.NoError(t, m.Unmount(t.Context(), s.path))
	require.False(t, isMountPoint(t, s.path))
}
