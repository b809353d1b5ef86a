//go:build !amd64 && !arm64

package child

import "golang.org/x/sys/unix"

// spawn is not implemented for this architecture.
func spawn(uintptr, *int32, *call) (pid uintptr) { return ^uintptr(unix.ENOSYS) + 1 }
