package testbed

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A Container is a thread with a mount namespace of its own, which ends with the test.
type Container struct {
	work chan func() error
	done chan error
}

// NewContainer starts a Container. It gets copies of the existing mounts; later mounts, of
// either side, do not propagate.
func NewContainer(t testing.TB) *Container {
	c := &Container{make(chan func() error), make(chan error)}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		for work := range c.work {
			result := err
			if err == nil {
				result = work()
			}
			c.done <- result
		}
	}()
	t.Cleanup(func() { close(c.work) })
	return c
}

// Do runs work in the container. Work must start no goroutine.
func (c *Container) Do(work func() error) error {
	c.work <- work
	return <-c.done
}
