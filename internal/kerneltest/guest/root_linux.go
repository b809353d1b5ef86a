package guest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The directory in which the guest's root is assembled.
const (
	hostDir  = "/host"
	layerDir = "/layer"
	rootDir  = "/root"
)

// program is the test binary in the guest's root.
const program = "/run/volumekit.test"

// assembleRoot assembles the guest's root directory: the host's, under a writable layer in
// memory, with the file systems of a machine.
func assembleRoot(writable []string) error {
	if err := mountRoot(); err != nil {
		return err
	}
	for _, dir := range writable {
		if err := mount("none", "hostfs", rootDir+dir, dir, 0); err != nil {
			return err
		}
	}
	// Moved to "/", since a process in a chroot may not create user namespaces.
	if err := changeRoot(rootDir); err != nil {
		return err
	}
	return furnish()
}

func mountRoot() error {
	if err := mount("none", "hostfs", hostDir, "/", unix.MS_RDONLY); err != nil {
		return err
	}
	if err := mount("tmpfs", "tmpfs", layerDir, "", 0); err != nil {
		return err
	}
	upper, work := layerDir+"/upper", layerDir+"/work"
	for _, dir := range []string{upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	layers := "lowerdir=" + hostDir + ",upperdir=" + upper + ",workdir=" + work
	if err := mount("overlay", "overlay", rootDir, layers, 0); err != nil {
		return err
	}
	return mount("/dev", "", rootDir+"/dev", "", unix.MS_MOVE)
}

func changeRoot(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if err := unix.Chroot("."); err != nil {
		return os.NewSyscallError("chroot", err)
	}
	return os.Chdir("/")
}

// furnish mounts the file systems and makes the links that programs expect.
func furnish() error {
	for _, m := range []struct{ fsType, dir, data string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"cgroup2", "/sys/fs/cgroup", ""},
		{"tmpfs", "/run", "mode=755"},
		{"tmpfs", TempDir, "mode=1777"},
		{"tmpfs", "/dev/shm", "mode=1777"},
		{"devpts", "/dev/pts", ""},
	} {
		if err := mount(m.fsType, m.fsType, m.dir, m.data, 0); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+to, "/dev/"+name); err != nil {
			return err
		}
	}
	// Hides the host's modules, which do not fit this kernel.
	return os.WriteFile("/proc/sys/kernel/modprobe", []byte("\n"), 0)
}

func mount(source, fsType, dir, data string, flags uintptr) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, dir, fsType, flags, data); err != nil {
		return fmt.Errorf("mount %s (%s) on %s: %w", source, fsType, dir, err)
	}
	return nil
}
