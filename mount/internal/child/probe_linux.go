package child

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// A probe is a statfs(2) of one mount, in flight or complete.
type probe struct {
	since   time.Time
	process *process
	done    chan struct{} // closed after err is set
	err     error
}

// await reports whether the probe completes in time.
func (p *probe) await(ctx context.Context, d time.Duration) (bool, error) {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-p.done:
		return true, nil
	case <-ctx.Done():
		return false, ctxend.Error(ctx)
	case <-timer.C:
		return false, nil
	}
}

// errAborted is ERESTARTSYS, a number that the kernel otherwise hides from programs.
const errAborted = unix.Errno(512)

// isDead recognizes the errors of a FUSE file system without a daemon, and of a removed
// export.
func isDead(err error) bool {
	return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED) || errors.Is(err, unix.ESTALE)
}

// startProbe starts a child that calls statfs(2), with fd as its only descriptor.
func startProbe(fd int) (*process, error) {
	p := new(process)
	calls := append(closeOthers(fd),
		call{number: unix.SYS_CLOCK_GETTIME, a: unix.CLOCK_REALTIME, b: uintptr(unsafe.Pointer(&p.time))},
		call{number: unix.SYS_FSTATFS, a: uintptr(fd), b: uintptr(unsafe.Pointer(&p.statfs))},
	)
	return p, p.start(calls...)
}

// hasCalledStatfs reports whether a probing child has reached its statfs(2). Closing the
// other descriptors before it may wait for another file system.
func (p *process) hasCalledStatfs() bool { return *(*int64)(unsafe.Pointer(&p.time.Sec)) != 0 }

// probeResult waits for the exit of a probing child. ERESTARTSYS of an aborted call exceeds
// the range of exit statuses and looks like success: the empty result gives it away.
func (p *process) probeResult() error {
	err := p.reap()
	if err == nil && p.statfs.Type == 0 {
		return errAborted
	}
	return err
}
