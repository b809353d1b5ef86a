package mount

import (
	"errors"
	"slices"
	"syscall"
)

// corruptedErrors are the errors of a file system whose server or daemon is gone.
var corruptedErrors = []syscall.Errno{
	syscall.ENOTCONN,     // a FUSE daemon has died
	syscall.ESTALE,       // the mounted directory was removed on the server
	syscall.EIO,          // a device does not answer
	syscall.EHOSTDOWN,    // a server is down
	syscall.EHOSTUNREACH, // a server is unreachable
	syscall.EWOULDBLOCK,  // a soft mount has given up
	syscall.ECONNABORTED, // a FUSE connection was cut
	errRestart,
}

// errRestart is ERESTARTSYS, which the kernel hides from programs. A call that waits for a
// server returns it inside the kernel when the mount is forced (MNT_FORCE).
const errRestart = syscall.Errno(512)

// IsCorrupted reports whether err, or an error that it wraps, is that of a mount whose file
// system no longer works: the path can be unmounted, and used again only then. Missing
// permissions do not count.
func IsCorrupted(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains(corruptedErrors, errno)
}
