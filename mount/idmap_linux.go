package mount

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mapIDs maps the owners of a mount that nobody sees yet (Linux 5.12). The map is
// that of a user namespace, which the mount keeps.
func mapIDs(fd int, req Request) error {
	if req.IDMap.empty() {
		return nil
	}
	namespace, err := openUserNamespace(req.IDMap)
	if err != nil {
		return fmt.Errorf("ID map: %w", err)
	}
	defer func() { _ = namespace.Close() }()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(namespace.Fd())}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|recursively(req), &attr)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		// Each file system type has to support it, and the mount of another user
		// namespace, or one that is mapped already, is not to be mapped.
		return fmt.Errorf("ID map: %w: %w", errors.ErrUnsupported, noPermission(err))
	}
	return err
}

// noPermission keeps a refusal from being taken for a filtered system call.
func noPermission(err error) error { return errors.New(err.Error()) }

// openUserNamespace makes a user namespace with the map. A namespace begins with
// a process in it: a copy of this program that is stopped before its first
// instruction, and killed.
func openUserNamespace(ids IDMap) (*os.File, error) {
	process, err := os.StartProcess("/proc/self/exe", []string{"volumekit-idmap"}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			Ptrace:      true,
			Pdeathsig:   syscall.SIGKILL,
			UidMappings: ids.mappings(ids.UIDs),
			GidMappings: ids.mappings(ids.GIDs),
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

// mappings: what is stored is an ID inside the namespace, what is shown one
// outside.
func (IDMap) mappings(ranges []IDRange) []syscall.SysProcIDMap {
	var maps []syscall.SysProcIDMap
	for _, r := range ranges {
		maps = append(maps, syscall.SysProcIDMap{ContainerID: int(r.Stored), HostID: int(r.Shown), Size: int(r.Count)})
	}
	return maps
}
