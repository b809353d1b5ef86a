package mount

import (
	"errors"
	"slices"
	"syscall"
)

// corrupted are what a file system answers whose server or daemon is gone.
var corrupted = []syscall.Errno{
	syscall.ENOTCONN,     // a FUSE daemon has died
	syscall.ESTALE,       // what is mounted was removed on the server
	syscall.EIO,          // a device does not answer
	syscall.EHOSTDOWN,    // a server is down
	syscall.EHOSTUNREACH, // or out of reach
	syscall.EWOULDBLOCK,  // a soft mount has given up
	syscall.ECONNABORTED, // a FUSE connection was cut
	errRestart,
}

// errRestart is ERESTARTSYS, which is not for programs to see. A call that was
// waiting for a server sees it when the mount is torn away (MNT_FORCE).
const errRestart = syscall.Errno(512)

// IsCorrupted reports whether err, or an error that it wraps, says that there is
// a mount whose file system no longer answers as one: the path can be unmounted,
// and used again only then. A permission that is missing is not that.
func IsCorrupted(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains(corrupted, errno)
}
