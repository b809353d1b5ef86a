package contract

import (
	"context"
	"errors"
	"syscall"
	"time"
)

const (
	// probeInterval is the time between two looks at whether a call waits for a FIFO. A call may take longer.
	probeInterval = time.Second
	// callTimeout ends the context of a call, which must return soon then.
	callTimeout = time.Minute

	waitedForFIFO = "%s has waited until another process opened the FIFO: open with O_NONBLOCK, refuse all but regular files, and close at once"
)

// mustReturn calls work and returns its error. The test fails if the call waits until another process opens
// the FIFO at path, which only a pod would do. If there is no FIFO, it fails only if the call takes too long.
// A slow call that keeps the FIFO open looks as if it waited, so a plugin must close it at once.
func (c *contract) mustReturn(path, what string, work func(context.Context) error) error {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), callTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer close(done) // also after runtime.Goexit, as by FailNow in a mock of the plugin
		done <- work(ctx)
	}()
	waited := false
	for range 2 * callTimeout / probeInterval {
		select {
		case err, returned := <-done:
			switch {
			case waited:
				c.Fatalf(waitedForFIFO, what)
			case !returned:
				c.Fatalf("%s has ended its goroutine", what)
			}
			return err
		case <-time.After(probeInterval):
			waited = openFIFO(path) || waited
		}
	}
	if waited {
		c.Fatalf(waitedForFIFO, what)
	}
	c.Fatalf("%s does not return, though its context has ended", what)
	return nil
}

// openFIFO opens both ends of the FIFO at path for an instant, and reports whether another thread has one of
// them open, or waits in open(2) for the other end. The waiting open(2) returns then.
func openFIFO(path string) bool {
	var is syscall.Stat_t
	if err := syscall.Lstat(path, &is); err != nil || is.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return false
	}
	const flags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	if writer, err := syscall.Open(path, syscall.O_WRONLY|flags, 0); err == nil { // ENXIO: no reader
		_ = syscall.Close(writer)
		return true
	}
	reader, err := syscall.Open(path, syscall.O_RDONLY|flags, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(reader) }()
	n, err := syscall.Read(reader, make([]byte, 1))
	return n > 0 || errors.Is(err, syscall.EAGAIN) // without a writer: the end of the file
}
