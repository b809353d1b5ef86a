package operation

import "errors"

// ErrMountedForReaders: a reader can use a writable device mount, but a writer cannot use a
// read-only one.
var ErrMountedForReaders = errors.New("the volume is mounted read-only for other pods, which have to end first")
