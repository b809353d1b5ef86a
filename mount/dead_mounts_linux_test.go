package mount_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestDeadMountsDelayNoOtherCalls: while many calls wait for two dead mounts, the same Mounter
// completes all calls about other mounts, and the waiting calls keep waiting. For each dead
// mount only one of the waiting calls is in the kernel.
func TestDeadMountsDelayNoOtherCalls(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := mkdirs(t, "one", "two", "source", "target")
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: time.Hour}})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	hung := []*fuseFS{mountHungFS(t, dir+"/one"), mountHungFS(t, dir+"/two")}
	goroutines := runtime.NumGoroutine()
	waiting, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiters sync.WaitGroup
	var returned atomic.Int64
	callers := 0
	for _, below := range []string{dir + "/one/none", dir + "/two/none"} {
		for range 10 {
			for _, call := range waitingCalls(m, dir, below) {
				callers++
				waiters.Go(func() {
					assert.ErrorIs(t, call(waiting), context.Canceled)
					returned.Add(1)
				})
			}
		}
	}
	for _, fs := range hung {
		waitUntil(t, "no request arrives at the file system", func() bool { return fs.heldRequests() > 0 })
	}
	// One goroutine for the first Mount on each target, and one for the first query of each
	// mount. No other thread is in the kernel.
	workers := func() bool { return runtime.NumGoroutine() <= goroutines+callers+4 && threadsInCalls(t) <= 4 }
	waitUntil(t, "more than one goroutine waits for each mount", workers)

	bind := mount.Request{Source: dir + "/source", Target: dir + "/target", Options: []string{"ro"}}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for range 100 {
		exerciseMounts(ctx, t, m, bind)
	}
	require.Zero(t, returned.Load(), "waiting calls have returned")
	for _, fs := range hung {
		require.Equal(t, 1, fs.heldRequests(), "requests in the kernel")
	}
	waitUntil(t, "more than one goroutine waits for each mount", workers)

	cancel()
	requireReturns(t, waiters.Wait)
	for _, fs := range hung {
		fs.release()
	}
	waitUntil(t, "a goroutine of a returned call remains", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// threadsInCalls returns how many threads of this process are in a system call, but for the calls
// in which threads are idle, wait for a child, or read the files of /proc. The number of all
// threads would tell less: the Go runtime starts one for each call that is slow, even if only for a
// moment, and keeps it.
func threadsInCalls(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	others := []int{unix.SYS_FUTEX, unix.SYS_EPOLL_PWAIT, unix.SYS_NANOSLEEP, unix.SYS_WAITID, unix.SYS_READ}
	in := 0
	for _, task := range tasks {
		call, err := os.ReadFile("/proc/self/task/" + task.Name() + "/syscall")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		require.NoError(t, err)
		number, _, _ := strings.Cut(strings.TrimSpace(string(call)), " ")
		if n, err := strconv.Atoi(number); err == nil && !slices.Contains(others, n) {
			in++
		}
	}
	return in
}

// waitingCalls returns calls about a path below a mount that does not answer.
func waitingCalls(m *mount.Mounter, dir, below string) []func(ctx context.Context) error {
	return []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := m.IsMountPoint(ctx, below); return err },
		func(ctx context.Context) error { _, err := m.MountRefs(ctx, below); return err },
		func(ctx context.Context) error { _, err := m.Resolve(ctx, below); return err },
		func(ctx context.Context) error { return m.Unmount(ctx, below) },
		func(ctx context.Context) error {
			return m.Mount(ctx, mount.Request{Source: dir + "/source", Target: below})
		},
	}
}

// exerciseMounts makes a call of each method, about mounts that answer.
func exerciseMounts(ctx context.Context, t *testing.T, m *mount.Mounter, bind mount.Request) {
	t.Helper()
	require.NoError(t, m.Mount(ctx, bind))
	is, err := m.IsMountPoint(ctx, bind.Target)
	require.NoError(t, err)
	require.True(t, is)
	refs, err := m.MountRefs(ctx, bind.Source)
	require.NoError(t, err)
	require.Equal(t, []string{bind.Target}, refs)
	_, err = m.Resolve(ctx, bind.Target)
	require.NoError(t, err)
	_, err = m.MountsFrom(ctx, "none")
	require.NoError(t, err)
	list, err := m.List(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	require.NoError(t, m.Unmount(ctx, bind.Target))
	require.NoError(t, m.Mount(ctx, mount.Request{Source: "x", FSType: "tmpfs", Target: bind.Target}))
	require.NoError(t, m.UnmountTree(ctx, bind.Target))
}
