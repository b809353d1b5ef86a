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
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// A sick file system is mounted at path and does not do what it is asked to, until
// it is cured.
type sick struct {
	path   string
	source string
	ends   bool // its end is something to wait for
	isDisk bool // it answers for its size
	cure   func()
}

// sicknesses are the ways in which a file system fails.
var sicknesses = map[string]func(t *testing.T, path, dir string) sick{
	"hung":    hungServer,
	"fuseblk": hungBlock,
	"dead":    deadDaemon,
	"disk":    deadDisk,
}

// mountSick mounts one.
func mountSick(t *testing.T, fall func(t *testing.T, path, dir string) sick) sick {
	t.Helper()
	dir := mkdirs(t, "hung")
	return fall(t, dir+"/hung", dir)
}

// hungServer does not answer, and does not have to as it is unmounted.
func hungServer(t *testing.T, path, _ string) sick {
	fs := mountHungFS(t, path)
	return sick{path: path, source: "hung", cure: fs.release}
}

// hungBlock does not answer, and has to as it is unmounted.
func hungBlock(t *testing.T, path, dir string) sick {
	device := emptyDevice(t, dir+"/image")
	fs := mountFUSEOn(t, device, path, "fuseblk", nil)
	_, err := os.Stat(path) // it is initialised
	require.NoError(t, err)
	fs.hang()
	return sick{path: path, source: device, ends: true, cure: fs.release}
}

// deadDaemon refuses everything: nobody will ever answer.
func deadDaemon(t *testing.T, path, _ string) sick {
	mountFUSE(t, path, nil).die()
	return sick{path: path, source: "hung", cure: func() {}}
}

// deadDisk has something to write, and its device takes nothing.
func deadDisk(t *testing.T, path, dir string) sick {
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
	return sick{path: path, source: device, ends: true, isDisk: true, cure: fs.release}
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(path, 0o755))
	return path
}

// onEachSickness runs a test with each, in a namespace of its own.
func onEachSickness(t *testing.T, test func(t *testing.T, s sick)) {
	for name, fall := range sicknesses {
		t.Run(name, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			s := mountSick(t, fall)
			test(t, s)
		})
	}
}

// soon calls with a context that ends soon.
func soon(t *testing.T, call func(ctx context.Context) error) (err error) {
	t.Helper()
	within(t, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err = call(ctx)
	})
	return err
}

// TestNeverStuck: every method returns soon after its context ends, whatever the
// file system that it is about does; what is mounted then is what its error says;
// and the tries do not pile up.
func TestNeverStuck(t *testing.T) {
	onEachSickness(t, func(t *testing.T, s sick) {
		m := mount.New(mount.Config{})
		goroutines, threads := runtime.NumGoroutine(), countThreads(t)
		tries := triesOn(t, m, s)
		before := world(t)
		for range 2 {
			for name, try := range tries {
				err := soon(t, try.call)
				require.NotErrorAs(t, err, new(*mount.InputError), "%s is no try", name)
				if try.changes(err) {
					try.settle(t, name)
				} else {
					certain(t, err, name)
				}
				require.Equal(t, before, world(t), "%s: %v", name, err)
			}
		}
		few := func() bool { return runtime.NumGoroutine() <= goroutines+16 }
		require.Eventually(t, few, time.Minute, 10*time.Millisecond, "not one for each try")
		require.LessOrEqual(t, countThreads(t), threads+64, "not one for each try")
		for name, try := range tries {
			if !try.asks {
				try.settle(t, name)
			}
		}
		for range 4 {
			err := soon(t, func(ctx context.Context) error { return m.UnmountTree(ctx, s.path) })
			certain(t, err, "unmount tree")
		}
		s.cure()
		unmountSoon(t, m, s.path)
		require.False(t, isMountPoint(t, s.path))
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 }, time.Minute, 10*time.Millisecond)
	})
}

// certain makes sure that it is known what is mounted: a kernel that tells of what
// kind the file system of the target's directory is always knows.
func certain(t *testing.T, err error, what string) {
	t.Helper()
	if mount.HasStatmount() {
		require.NotErrorIs(t, err, mount.ErrUncertain, what)
	}
}

func countThreads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	return len(tasks)
}

// unmountAbandoned unmounts with contexts that end soon, as often as it takes until
// nothing is mounted there.
func unmountAbandoned(t *testing.T, m *mount.Mounter, path string) (err error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); isMountPoint(t, path); {
		require.True(t, time.Now().Before(deadline), "it stays: %v", err)
		err = soon(t, func(ctx context.Context) error { return m.Unmount(ctx, path) })
	}
	return err
}

// TestUnmountSick: an idle mount goes, and its path is free at once. That its file
// system has not ended is said, as often as asked, until it has.
func TestUnmountSick(t *testing.T) {
	onEachSickness(t, func(t *testing.T, s sick) {
		m := mount.New(mount.Config{})
		err := unmountAbandoned(t, m, s.path)
		if s.ends {
			for range 3 {
				require.ErrorIs(t, err, mount.ErrNotEnded)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				certain(t, err, "unmount")
				err = soon(t, func(ctx context.Context) error { return m.Unmount(ctx, s.path) })
			}
		}
		later := mount.Request{Source: "later", FSType: "tmpfs", Target: s.path}
		require.NoError(t, m.Mount(t.Context(), later), "the path is free")
		s.cure()
		within(t, func() {
			require.NoError(t, m.Unmount(t.Context(), s.path), "it waits for both ends")
			require.NoError(t, m.Unmount(t.Context(), s.path))
		})
		if s.ends {
			fd, err := unix.Open(s.source, unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0)
			require.NoError(t, err, "the device is in use")
			require.NoError(t, unix.Close(fd))
		}
	})
}

// TestLateEnd: what was abandoned changes nothing when it comes to its end.
func TestLateEnd(t *testing.T) {
	onEachSickness(t, func(t *testing.T, s sick) {
		m := mount.New(mount.Config{})
		goroutines := runtime.NumGoroutine()
		_ = unmountAbandoned(t, m, s.path)
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "later", FSType: "tmpfs", Target: s.path}))
		s.cure()
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 }, time.Minute, 10*time.Millisecond)
		require.True(t, isMountPoint(t, s.path))
		require.NoError(t, m.Unmount(t.Context(), s.path))
	})
}

// busy keeps a mount busy, without asking its file system.
func busy(t *testing.T, path string) (leave func()) {
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

// TestPolicies: what becomes of a busy mount.
func TestPolicies(t *testing.T) {
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
			for sickness, fall := range sicknesses {
				t.Run(sickness, func(t *testing.T) {
					if !mounttest.RootNamespace(t) {
						return
					}
					s := mountSick(t, fall)
					policy := policy
					if sickness == "disk" {
						policy.Grace = time.Minute // it answers, some time
					}
					leave := busy(t, s.path)
					m := mount.New(mount.Config{Unmount: policy})
					err := unmountAfterGrace(t, m, s)
					want := wants[sickness][name]
					require.ErrorIs(t, err, want)
					require.Equal(t, want != nil, isMountPoint(t, s.path))
					if want != nil {
						require.ErrorIs(t, err, mount.ErrBusy)
						if errors.Is(want, mount.ErrBusy) {
							require.NotErrorIs(t, err, mount.ErrNotAnswering)
						}
					}
					s.cure()
					leave()
					unmountSoon(t, m, s.path)
				})
			}
		})
	}
}

// unmountAfterGrace unmounts once the grace is over. As long as a slow machine has not
// got to asking the file system, that counts as one that answers.
func unmountAfterGrace(t *testing.T, m *mount.Mounter, s sick) (err error) {
	t.Helper()
	within(t, func() {
		err = m.Unmount(t.Context(), s.path)
		for !s.isDisk && errors.Is(err, mount.ErrBusy) && !errors.Is(err, mount.ErrNotAnswering) {
			err = m.Unmount(t.Context(), s.path)
		}
	})
	return err
}

// TestForce: those who wait for a server that does not answer are woken, and then
// the mount is idle.
func TestForce(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	s := mountSick(t, hungServer)
	woken := make(chan error, 1)
	go func() { woken <- unix.Access(s.path, unix.R_OK) }()
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Last: mount.UnmountForce, Grace: 100 * time.Millisecond}})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, m.Unmount(t.Context(), s.path))
	}, time.Minute, time.Millisecond)
	require.False(t, isMountPoint(t, s.path))
	within(t, func() { <-woken })
}

// TestAnsweringStays: a busy mount whose file system answers, late as it may be, is
// never taken from those who use it.
func TestAnsweringStays(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	delay, grace := time.Second, time.Minute
	if os.Getenv("VOLUMEKIT_LONG") != "" {
		delay = 20 * time.Second
	}
	path := mkdirs(t, "hung") + "/hung"
	fs := mountHungFS(t, path)
	busy(t, path)
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: grace}})
	timer := time.AfterFunc(delay, fs.release)
	defer timer.Stop()
	err := m.Unmount(t.Context(), path)
	require.ErrorIs(t, err, mount.ErrBusy)
	require.NotErrorIs(t, err, mount.ErrNotAnswering)
	require.True(t, isMountPoint(t, path))
}

// TestGraceGoesOn: callers who give up before the grace is over, and come again, do
// not begin it anew; and one question is asked for all of them.
func TestGraceGoesOn(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	s := mountSick(t, hungServer)
	busy(t, s.path)
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: 300 * time.Millisecond}})
	goroutines := runtime.NumGoroutine()
	for deadline := time.Now().Add(time.Minute); isMountPoint(t, s.path); {
		require.True(t, time.Now().Before(deadline), "it goes on for ever")
		err := soon(t, func(ctx context.Context) error { return m.Unmount(ctx, s.path) })
		certain(t, err, "unmount")
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+64)
	}
}

// exitVar makes TestExit the process that exits.
const (
	exitVar  = "VOLUMEKIT_TEST_EXIT"
	inUseVar = "VOLUMEKIT_TEST_IN_USE"
)

// unmountAndExit tries once what is in use, and else until it is gone.
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

// TestExit: a process can exit whatever its unmounts are still waiting for.
func TestExit(t *testing.T) {
	if path := os.Getenv(exitVar); path != "" {
		unmountAndExit(path)
	}
	onEachSickness(t, func(t *testing.T, s sick) {
		for _, inUse := range []bool{true, false} {
			leave := func() {}
			if inUse {
				leave = busy(t, s.path)
			}
			c := exec.Command("/proc/self/exe", "-test.run=^TestExit$")
			c.Env = append(os.Environ(), exitVar+"="+s.path, inUseVar+"="+strconv.FormatBool(inUse))
			within(t, func() {
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

// TestWithoutHolds: where the kernel lets nobody hold a file system, an unmount that
// is stuck keeps its target until it has ended.
func TestWithoutHolds(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	s := mountSick(t, hungBlock)
	target := mkdirs(t, "target") + "/target"
	forbid(t, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT)
	m := mount.New(mount.Config{StagingDir: mkdirs(t) + "/staging"})
	unmount := func(ctx context.Context) error { return m.Unmount(ctx, s.path) }
	err := soon(t, unmount)
	for deadline := time.Now().Add(time.Minute); !errors.Is(err, mount.ErrUncertain); err = soon(t, unmount) {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, time.Now().Before(deadline))
	}
	for _, call := range []func(ctx context.Context) error{
		unmount,
		func(ctx context.Context) error {
			return m.Mount(ctx, mount.Request{Source: "later", FSType: "tmpfs", Target: s.path})
		},
	} {
		err := soon(t, call)
		require.ErrorIs(t, err, context.DeadlineExceeded, "nobody overtakes it")
		require.NotErrorIs(t, err, mount.ErrUncertain)
	}
	other := mount.Request{Source: "other", FSType: "tmpfs", Target: target}
	require.NoError(t, m.Mount(t.Context(), other), "it is in nobody else's way")
	require.NoError(t, m.Unmount(t.Context(), target))
	s.cure()
	within(t, func() {
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "later", FSType: "tmpfs", Target: s.path}))
	})
	require.True(t, isMountPoint(t, s.path))
	require.NoError(t, m.Unmount(t.Context(), s.path))
	require.False(t, isMountPoint(t, s.path))
}
