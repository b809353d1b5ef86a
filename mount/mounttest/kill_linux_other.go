//go:build linux && !amd64

package mounttest

import "golang.org/x/sys/unix"

// registerInfo fails: the registers' layout is known on amd64 only.
func registerInfo(int) (info ptraceSyscallInfo, err error) { return info, unix.ENOSYS }
