package mounttest

import (
	"errors"
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func (c *contract) concurrent() {
	source, target := c.mkdir("source"), c.mkdir("target")
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
		require.Len(c, c.at(target), 1)
		each(func() error { return c.m.Unmount(c.Context(), target) })
		c.isMountPoint(target, false)
	}
}

// treesBesideNeighbours: who takes down a tree that is gone meanwhile takes nothing
// else down.
func (c *contract) treesBesideNeighbours() {
	c.unlocked()
	source, target, neighbour := c.mkdir("unlocked/source"), c.mkdir("unlocked/target"), c.mkdir("unlocked/neighbour")
	c.mount(mount.Request{Source: source, Target: neighbour})
	rounds := 1000
	if testing.Short() {
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
				_ = call() // it may be busy, or too late
			}
		})
	}
	done.Wait()
	c.isMountPoint(neighbour, true)
	require.NoError(c, c.m.UnmountTree(c.Context(), target))
	c.isMountPoint(target, false)
}

// queriesBesideChanges: whoever only asks does not disturb whoever mounts. A
// query may keep a mount busy for as long as the kernel is at it.
func (c *contract) queriesBesideChanges() {
	source, target := c.mkdir("source"), c.mkdir("target")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for range 4 {
		wg.Go(func() { c.askUntil(stop, target) })
	}
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	for range rounds {
		c.mount(mount.Request{Source: source, Target: target})
		c.unmountRetrying(target, 30*time.Second)
		c.isMountPoint(target, false)
	}
}

// askUntil asks all there is to ask about the target, again and again.
func (c *contract) askUntil(stop <-chan struct{}, target string) {
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
		require.True(c, time.Now().Before(deadline), "busy for too long")
	}
}
