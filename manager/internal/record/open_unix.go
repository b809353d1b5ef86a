//go:build unix

package record

import "syscall"

// openRegular does not block, as opening a pipe would.
const openRegular = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
