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
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// insideVar tells a test that it is the copy in the namespace.
	insideVar = "VOLUMEKIT_IN_NAMESPACE"
	// countVar names a file that gets a line for each test that ran in one.
	countVar = "VOLUMEKIT_COUNT_FILE"
)

// Namespace re-executes the test in a user and mount namespace of its own, where
// it is root and may mount, and returns false: the test has run, and returns.
// In the copy it returns true: the test goes on.
//
//	func TestBind(t *testing.T) {
//		if !mounttest.Namespace(t) {
//			return
//		}
//		// Mounts made here are real, and seen by nobody else.
//	}
//
// It needs no privilege, and works for root as well. The copy's failures are
// the test's. Where user namespaces are not to be had the test is skipped, see
// [SkipWithout]. Mounts that the test leaves end with the copy.
func Namespace(t *testing.T) (inside bool) {
	t.Helper()
	return reexec(t, "userns", syscall.CLONE_NEWUSER|syscall.CLONE_NEWNS)
}

// RootNamespace is Namespace with a mount namespace alone, for tests that need
// what only the machine's root has: file systems on block devices, device files.
// Without root the test is skipped.
func RootNamespace(t *testing.T) (inside bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		SkipWithout(t, "root", "not root")
	}
	return reexec(t, "root", syscall.CLONE_NEWNS)
}

// Command returns a command that runs in a user and mount namespace of its own,
// as its root, and dies with this process. It inherits nothing but the
// environment; the caller connects its input and output. Whether mounting is
// allowed there is for the command to see: see [Privatize].
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

// Privatize keeps what is mounted in this namespace from spreading to others. It
// fails where a namespace can be made but not used, as some hosts have it.
func Privatize() error {
	return os.NewSyscallError("mount", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

func reexec(t *testing.T, thing string, flags uintptr) (inside bool) {
	t.Helper()
	if os.Getenv(insideVar) != "" {
		if err := Privatize(); err != nil {
			SkipWithout(t, thing, err)
		}
		count(t)
		return true
	}
	// The child dies with the thread that made it, so the thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := command(flags, "/proc/self/exe", testArgs(t)...)
	// Without the last a test with the race detector sleeps a second in the end.
	c.Env = append(os.Environ(), insideVar+"=1", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	output, err := c.CombinedOutput()
	if testing.Verbose() {
		t.Logf("in its namespace:\n%s", output)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		SkipWithout(t, thing, err)
	}
	report(t, string(output), err)
	return false
}

// testArgs are the arguments that make the test binary run this test alone.
func testArgs(t *testing.T) []string {
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	args := []string{"-test.v", "-test.count=1", "-test.run=" + strings.Join(parts, "/")}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	return args
}

// report makes the copy's result the test's own.
func report(t *testing.T, output string, err error) {
	t.Helper()
	switch {
	case err != nil:
		t.Fatalf("in its namespace: %v\n%s", err, output)
	case strings.Contains(output, "--- SKIP: "+t.Name()+" "):
		t.Skipf("in its namespace:\n%s", output)
	case !strings.Contains(output, "--- PASS: "+t.Name()+" "):
		t.Fatalf("did not run in its namespace:\n%s", output)
	}
}

func count(t *testing.T) {
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
