package failure

import "errors"

// ErrUncertain is wrapped by errors after which the mount table may have changed.
var ErrUncertain = errors.New("the outcome is uncertain")

// ErrWouldWait is the error of a call that may not wait, and might have to.
var ErrWouldWait = errors.New("the call might wait for a file system")

// Errors of unmounting.
var (
	ErrStillMounted = errors.New("still mounted")
	ErrNotEnded     = errors.New("unmounted, but the file system has not ended yet")
	ErrNotAnswering = errors.New("the file system does not answer")
)

// Errors of mounting.
var (
	ErrMounted        = errors.New("another mount exists at the target")
	ErrNotAsRequested = errors.New("the mount is not as requested")
	ErrSubmounts      = errors.New("the source has submounts")
	ErrUnknownFSType  = errors.New("unknown file system type")
	ErrNotMounted     = errors.New("the target is no mount point")

	// ErrUnsafeDirectory is the error of a staging directory that other users control. No
	// privilege is missing.
	ErrUnsafeDirectory = errors.New("must be a directory that this user owns and no other user can write")
)
