package emptydir

import (
	"os"

	"golang.org/x/sys/unix"
)

// nodeMemory returns the size of the machine's memory in bytes.
func nodeMemory() (int64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, os.NewSyscallError("sysinfo", err)
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit)), nil
}
