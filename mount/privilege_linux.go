package mount

import (
	"errors"
	"os"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// missingPrivilege returns the privilege that the calling thread lacks after EPERM of a call
// that mounts, or EACCES of a path.
func missingPrivilege(err error) string {
	mounting := errors.Is(err, unix.EPERM)
	switch {
	case mounting && !kernel.HasCapability(unix.CAP_SYS_ADMIN):
		return "CAP_SYS_ADMIN, as root or in a user namespace"
	case mounting && inUserNamespace():
		return "CAP_SYS_ADMIN in the initial user namespace"
	case mounting:
		return "a system call filter, security module or server that permits it"
	case !kernel.HasCapability(unix.CAP_DAC_READ_SEARCH) && !kernel.HasCapability(unix.CAP_DAC_OVERRIDE):
		return "root, or permission for the path"
	}
	return ""
}

// inUserNamespace: the initial user namespace maps each ID to itself.
func inUserNamespace() bool {
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(ids)), " ") != "0 0 4294967295"
}
