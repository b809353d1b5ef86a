package building

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/volumekit/volumekit/mount/internal/spec"
	"golang.org/x/sys/unix"
)

// errNoIDMap is the error of the classic tier.
var errNoIDMap = fmt.Errorf("ID map: requires mount_setattr(2), Linux 5.12: %w", errors.ErrUnsupported)

// mapIDs sets the ID map of a detached tree. The map is that of a user namespace, which the
// mount keeps. Each file system type has to support it, and a mount of another user namespace
// or with a map cannot get one.
func mapIDs(fd int, s *spec.Spec) error {
	if s.IDMap.IsEmpty() {
		return nil
	}
	namespace, err := openUserNamespace(s.IDMap)
	if err != nil {
		return fmt.Errorf("ID map: %w", err)
	}
	defer func() { _ = namespace.Close() }()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(namespace.Fd())}
	return explainRefusedMap(unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|recursiveFlag(s), &attr))
}

// explainRefusedMap adds the missing requirement to the errors with which the kernel refuses a map.
func explainRefusedMap(err error) error {
	var requires string
	switch {
	case errors.Is(err, unix.ENOSYS):
		return errNoIDMap
	case errors.Is(err, unix.EPERM):
		requires = "requires CAP_SYS_ADMIN in the user namespace of the file system, and a source without an ID map"
	case errors.Is(err, unix.EINVAL):
		requires = "requires a file system type with ID maps"
	default:
		return err
	}
	return fmt.Errorf("ID map: %s: %w: %w", requires, errors.ErrUnsupported, withoutCause(err))
}

// withoutCause returns an error with the same text. A caller must not mistake the refusal for
// a system call filter's.
func withoutCause(err error) error { return errors.New(err.Error()) }

// openUserNamespace creates a user namespace with the map. The kernel creates a namespace with
// a process in it: a copy of this program, which is stopped before its first instruction and
// killed.
func openUserNamespace(ids spec.IDMap) (*os.File, error) {
	process, err := os.StartProcess("/proc/self/exe", []string{"volumekit-idmap"}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			Ptrace:      true,
			Pdeathsig:   syscall.SIGKILL,
			UidMappings: namespaceMappings(ids.UIDs),
			GidMappings: namespaceMappings(ids.GIDs),
		},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = process.Kill()
		_, _ = process.Wait()
	}()
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", process.Pid))
}

// namespaceMappings returns the ranges as those of a user namespace: a stored ID is an ID
// inside the namespace, a shown ID is one outside.
func namespaceMappings(ranges []spec.IDRange) []syscall.SysProcIDMap {
	var maps []syscall.SysProcIDMap
	for _, r := range ranges {
		maps = append(maps, syscall.SysProcIDMap{ContainerID: int(r.Stored), HostID: int(r.Shown), Size: int(r.Count)})
	}
	return maps
}
