package operation

import "errors"

// ErrMountedForReaders: a reader can use a writable device mount, but a writer cannot use a
// read-only one.
var ErrMountedForReaders = errors.New("the volume is mounted for pods that only read it, and they have to go first")
