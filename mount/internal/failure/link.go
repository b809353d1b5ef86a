package failure

import "syscall"

// ErrLink is the error of a symbolic link in a path, for an operation that follows none. It wraps ELOOP.
var ErrLink error = refusedLink{}

type refusedLink struct{}

// Error names the way out.
func (refusedLink) Error() string { return "a symbolic link on the way: FollowLinks resolves it" }

// Unwrap returns the kernel's error.
func (refusedLink) Unwrap() error { return syscall.ELOOP }
