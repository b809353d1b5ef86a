package socketfile

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// handleIdentifies requests a handle that only identifies a file, since Linux 6.5, which file systems
// without other handles have as well.
const handleIdentifies = 0x200

// handleOf returns the handle of a file, which contains the generation of its number, and does not
// follow a symbolic link: name_to_handle_at(2).
func handleOf(path string) string {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, handleIdentifies)
	if err != nil {
		handle, _, err = unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	}
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%x", handle.Type(), handle.Bytes())
}
