package mounttest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/testflag"
)

const (
	// insideVar marks the copy of the test in the namespace.
	insideVar = "VOLUMEKIT_IN_NAMESPACE"
	// memoryVar names the directory on which the copy mounts a tmpfs for its files.
	memoryVar = "VOLUMEKIT_TEST_MEMORY"
	// countVar names a file that gets a line for each test that ran in one.
	countVar = "VOLUMEKIT_COUNT_FILE"
)

// Namespace re-executes the test in a user and mount namespace of its own, where it is root
// and may mount, and returns false: the test has run, and returns. In the copy it returns
// true: the test continues.
//
//	func TestBind(t *testing.T) {
//		if !mounttest.Namespace(t) {
//			return
//		}
//		// Mounts made here are real, and invisible to other processes.
//	}
//
// It needs no privilege, and works for root as well. The copy's failures are the test's.
// Where user namespaces are not available the test is skipped, see [SkipWithout]. Mounts
// that the test leaves end with the copy. With -short the copy's TMPDIR, and with it T.TempDir,
// is a tmpfs: the test does not wait for a disk.
func Namespace(t T) (inside bool) {
	t.Helper()
	return reexec(t, "userns", syscall.CLONE_NEWUSER|syscall.CLONE_NEWNS)
}

// RootNamespace is Namespace with a mount namespace alone, for tests that need the machine's
// root: file systems on block devices, device files. Without root the test is skipped.
func RootNamespace(t T) (inside bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		SkipWithout(t, "root", "not root")
	}
	return reexec(t, "root", syscall.CLONE_NEWNS)
}

// Command returns a command that runs in a user and mount namespace of its own, as its root,
// and dies with this process. It inherits the environment alone; the caller connects its
// input and output. The command checks by [Privatize] whether mounting is allowed there.
func Command(name string, args ...string) *exec.Cmd {
	return command(syscall.CLONE_NEWUSER|syscall.CLONE_NEWNS, name, args...)
}

func command(flags uintptr, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if flags&syscall.CLONE_NEWUSER != 0 {
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return c
}

// Privatize keeps the mounts of this namespace from propagating to others. It fails on hosts
// that permit creating a user namespace but not mounting in it.
func Privatize() error {
	return os.NewSyscallError("mount", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

func reexec(t T, thing string, flags uintptr) (inside bool) {
	t.Helper()
	if os.Getenv(insideVar) != "" {
		begin(t, thing)
		return true
	}
	args, ok := testArgs(t)
	if !ok {
		t.Fatalf("the time of go test is up (-timeout)")
		return false
	}
	// The child dies with the thread that created it, so the thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := command(flags, "/proc/self/exe", args...)
	// Without atexit_sleep_ms a test with the race detector sleeps a second at its end.
	c.Env = append(os.Environ(), insideVar+"=1", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	if testflag.Short() {
		dir, err := os.MkdirTemp("", "m") // short: tests have sockets
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.Remove(dir) }()
		c.Env = append(c.Env, memoryVar+"="+dir)
	}
	output, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		SkipWithout(t, thing, err)
	}
	reportResult(t, string(output), err)
	return false
}

// begin prepares the namespace of the copy.
func begin(t T, thing string) {
	t.Helper()
	if err := Privatize(); err != nil {
		SkipWithout(t, thing, err)
	}
	if err := keepInMemory(); err != nil {
		t.Fatal(err)
	}
	recordRun(t)
}

// keepInMemory makes a tmpfs TMPDIR, if the parent has made a directory for it. Processes of the test share it.
func keepInMemory() error {
	dir := os.Getenv(memoryVar)
	if dir == "" {
		return nil
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=1777"); err != nil {
		return &os.PathError{Op: "mount tmpfs", Path: dir, Err: err}
	}
	// T.TempDir goes by GOTMPDIR, if it is set.
	return errors.Join(os.Setenv("TMPDIR", dir), os.Unsetenv("GOTMPDIR"), os.Unsetenv(memoryVar))
}

// testArgs are the arguments that make the test binary run this test alone. They are not ok if go test leaves
// no time for the copy: copies that are killed at their start would hide the test that took the time.
func testArgs(t T) (args []string, ok bool) {
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	args = []string{"-test.v", "-test.count=1", "-test.run=" + strings.Join(parts, "/")}
	if testflag.Short() {
		args = append(args, "-test.short")
	}
	end, limited := deadline(t)
	if !limited {
		return args, true
	}
	left := time.Until(end) - reportTime
	return append(args, "-test.timeout="+left.String()), left > 0
}

// reportTime is the time that a copy that hangs has to print its stacks before its test ends.
const reportTime = 10 * time.Second

// deadline returns when go test ends the test; see [testing.T.Deadline].
func deadline(t T) (end time.Time, ok bool) {
	if t, limited := t.(interface{ Deadline() (time.Time, bool) }); limited {
		return t.Deadline()
	}
	return time.Time{}, false
}

// reportResult makes the copy's result the test's own.
func reportResult(t T, output string, err error) {
	t.Helper()
	switch {
	case err != nil:
		t.Fatalf("in its namespace: %v\n%s", err, output)
	case strings.Contains(output, "--- SKIP: "+t.Name()+" "):
		t.Skipf("in its namespace:\n%s", output)
	case !strings.Contains(output, "--- PASS: "+t.Name()+" "):
		t.Fatalf("did not run in its namespace:\n%s", output)
	}
	t.Logf("in its namespace:\n%s", output)
}

func recordRun(t T) {
	name := os.Getenv(countVar)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintln(f, t.Name())
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
