package contract

import (
	"errors"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// concurrent: of concurrent calls for one target all succeed, and one mount results.
func (c *contract) concurrent() {
	source, target := c.makeDir("source"), c.makeDir("target")
	each := func(call func() error) {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if err := call(); err != nil {
					c.Error(err)
				}
			})
		}
		wg.Wait()
	}
	for range 8 {
		each(func() error {
			return c.m.Mount(c.Context(), mount.Request{Source: source, Target: target, Options: []string{"ro"}})
		})
		require.Len(c, c.entriesAt(target), 1)
		each(func() error { return c.m.Unmount(c.Context(), target) })
		c.requireNoMountPoint(target)
	}
}

// treesBesideNeighbours: an UnmountTree of a tree that is gone meanwhile unmounts no other
// tree.
func (c *contract) treesBesideNeighbours() {
	c.unlockedSource()
	source, target, neighbour := c.makeDir("unlocked/source"), c.makeDir("unlocked/target"), c.makeDir("unlocked/neighbour")
	c.mount(mount.Request{Source: source, Target: neighbour})
	rounds := 1000
	if c.short {
		rounds = 200
	}
	var done sync.WaitGroup
	for _, call := range []func() error{
		func() error { return c.m.Mount(c.Context(), mount.Request{Source: source, Target: target}) },
		func() error { return c.m.Unmount(c.Context(), target) },
		func() error { return c.m.UnmountTree(c.Context(), target) },
		func() error { return c.m.UnmountTree(c.Context(), target) },
	} {
		done.Go(func() {
			for range rounds {
				_ = call() // the mount may be busy
			}
		})
	}
	done.Wait()
	c.requireMountPoint(neighbour)
	require.NoError(c, c.m.UnmountTree(c.Context(), target))
	c.requireNoMountPoint(target)
}

// queriesBesideChanges: queries do not disturb changes. A query may keep a mount busy while
// the kernel executes it.
func (c *contract) queriesBesideChanges() {
	source, target := c.makeDir("source"), c.makeDir("target")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for range 4 {
		wg.Go(func() { c.queryUntil(stop, target) })
	}
	rounds := 200
	if c.short {
		rounds = 40
	}
	for range rounds {
		c.mount(mount.Request{Source: source, Target: target})
		c.unmountRetrying(target, 30*time.Second)
		c.requireNoMountPoint(target)
	}
}

// queryUntil makes all queries about the target, repeatedly.
func (c *contract) queryUntil(stop <-chan struct{}, target string) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		_, listErr := c.m.List(c.Context())
		_, refsErr := c.m.MountRefs(c.Context(), target)
		_, isErr := c.m.IsMountPoint(c.Context(), target)
		for _, err := range []error{listErr, refsErr, isErr} {
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.Error(err)
			}
		}
	}
}

func (c *contract) unmountRetrying(target string, patience time.Duration) {
	c.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := c.m.Unmount(c.Context(), target)
		if err == nil {
			return
		}
		require.ErrorIs(c, err, syscall.EBUSY)
		require.True(c, time.Now().Before(deadline), "the mount stays busy")
	}
}
