package mount_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestBesideDeadMounts: mounts that do not answer slow no other down. While crowds
// wait for two of them, everything that has to do with others is done, as if nothing
// was the matter, by the same Mounter; and those who wait are waiting still. For
// each mount one of them is in the kernel, and nobody else.
func TestBesideDeadMounts(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := mkdirs(t, "one", "two", "source", "target")
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: time.Hour}})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	hung := []*fuseFS{mountHungFS(t, dir+"/one"), mountHungFS(t, dir+"/two")}
	goroutines, threads := runtime.NumGoroutine(), countThreads(t)
	waiting, cancel := context.WithCancel(t.Context())
	defer cancel()
	var crowd sync.WaitGroup
	var returned atomic.Int64
	callers := 0
	for _, below := range []string{dir + "/one/none", dir + "/two/none"} {
		for range 10 {
			for _, call := range waitingCalls(m, dir, below) {
				callers++
				crowd.Go(func() {
					assert.ErrorIs(t, call(waiting), context.Canceled)
					returned.Add(1)
				})
			}
		}
	}
	for _, fs := range hung {
		waitUntil(t, "nobody asks", func() bool { return fs.held() > 0 })
	}
	// One for the first Mount on each target, and one for the first to ask each mount.
	workers := func() bool { return runtime.NumGoroutine() <= goroutines+callers+4 }
	waitUntil(t, "more than one for each mount", workers)

	bind := mount.Request{Source: dir + "/source", Target: dir + "/target", Options: []string{"ro"}}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for range 100 {
		beside(ctx, t, m, bind)
	}
	require.Zero(t, returned.Load(), "those who wait")
	for _, fs := range hung {
		require.Equal(t, 1, fs.held(), "one asks")
	}
	waitUntil(t, "more than one for each mount", workers)
	require.LessOrEqual(t, countThreads(t), threads+32)

	cancel()
	within(t, crowd.Wait)
	for _, fs := range hung {
		fs.release()
	}
	waitUntil(t, "one goes on for ever", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// waitingCalls are about what is below a mount that does not answer.
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

// beside is a round of everything, on a mount that is well.
func beside(ctx context.Context, t *testing.T, m *mount.Mounter, bind mount.Request) {
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
