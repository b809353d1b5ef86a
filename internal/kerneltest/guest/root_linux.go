package guest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Where the guest's root is put together.
const (
	hostDir  = "/host"
	layerDir = "/layer"
	rootDir  = "/root"
)

// program is the test binary in the guest's root.
const program = "/run/volumekit.test"

// settle makes the guest's root the root directory: the host's, with a layer of
// memory above it for what is written, and what a machine has besides.
func settle(writable []string) error {
	if err := mountRoot(); err != nil {
		return err
	}
	for _, dir := range writable {
		if err := mount("none", "hostfs", rootDir+dir, dir, 0); err != nil {
			return err
		}
	}
	// Moved to "/" and not just entered: a program whose root is elsewhere may
	// not make user namespaces.
	if err := enter(rootDir); err != nil {
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

func enter(dir string) error {
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

// furnish mounts and links what programs expect to find.
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
	// What was not loaded is not to be had: the host's modules are not ours.
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
