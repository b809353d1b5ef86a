package kubeserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// isolatedVariable is set in the environment of a test's copy that Isolate runs.
const isolatedVariable = "VOLUMEKIT_KUBE_NODE"

// Isolate runs the test again in mount, network and PID namespaces of its own, as a node needs them,
// and returns false: the test has run. In the copy, where all processes end with the test, it
// returns true. It needs root.
func Isolate(t mounttest.T) (inside bool) {
	t.Helper()
	if os.Getenv(isolatedVariable) != "" {
		if err := setUpNamespaces(); err != nil {
			t.Fatalf("set up the node's namespaces: %v", err)
		}
		return true
	}
	if os.Geteuid() != 0 {
		mounttest.SkipWithout(t, "root", "not root")
	}
	runtime.LockOSThread() // Pdeathsig is sent when this thread ends
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.count=1", "-test.timeout=15m", "-test.run=^"+regexp.QuoteMeta(t.Name())+"$")
	cmd.Env = append(os.Environ(), isolatedVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	output, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("in namespaces of its own: %v\n%s", err, output)
	case strings.Contains(string(output), "--- SKIP: "+t.Name()+" "):
		t.Skipf("in namespaces of its own:\n%s", output)
	}
	t.Logf("%s", output)
	return false
}

// nodeAddress is the address of the node in its network namespace. A kubelet refuses one of
// the loopback network.
const nodeAddress = "10.99.0.1"

// setUpNamespaces mounts /proc, and empty directories where a kubelet and containerd write outside of
// their own, and gives the network an address and a default route. All mounts are shared, as by
// systemd, but not with another namespace.
func setUpNamespaces() error {
	for _, m := range []struct {
		source, target, fsType string
		flags                  uintptr
	}{
		{target: "/", flags: syscall.MS_REC | syscall.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{"tmpfs", "/var/lib", "tmpfs", 0},
		{"tmpfs", "/var/log", "tmpfs", 0},
		{target: "/", flags: syscall.MS_REC | syscall.MS_SHARED},
	} {
		if err := syscall.Mount(m.source, m.target, m.fsType, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := os.MkdirAll(os.TempDir(), 0o777); err != nil { // a directory of /run in a guest
		return fmt.Errorf("make the directory for temporary files: %w", err)
	}
	if err := coverProcessors(); err != nil {
		return err
	}
	if err := coverTunables(); err != nil {
		return err
	}
	for _, command := range []string{
		"link set lo up", "link add br0 type bridge", "addr add " + nodeAddress + "/24 dev br0", "link set br0 up", "route add default dev br0",
	} {
		if output, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, output)
		}
	}
	return nil
}

// tunables are the kernel parameters that a kubelet sets.
var tunables = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// coverProcessors mounts a file over the list of processors if the list lacks the clock speed, as in a guest:
// a kubelet requires one.
func coverProcessors() error {
	const list, cover = "/proc/cpuinfo", "/run/cpuinfo"
	text, err := os.ReadFile(list)
	if err != nil || strings.Contains(string(text), "cpu MHz") {
		return err
	}
	if err := os.WriteFile(cover, append([]byte("cpu MHz : 1000.0\n"), text...), 0o644); err != nil {
		return err
	}
	if err := syscall.Mount(cover, list, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s: %w", list, err)
	}
	return nil
}

// coverTunables mounts files over the kernel parameters, which are those of the machine.
func coverTunables() error {
	for name, value := range tunables {
		file := filepath.Join("/run", strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(file, filepath.Join("/proc/sys", name), "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover the kernel parameter %s: %w", name, err)
		}
	}
	return nil
}
