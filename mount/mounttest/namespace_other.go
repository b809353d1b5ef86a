//go:build !linux

package mounttest

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

var errOnlyLinux = fmt.Errorf("mount namespaces: requires Linux, not %s: %w", runtime.GOOS, errors.ErrUnsupported)

// Namespace skips the test: it needs Linux.
func Namespace(t T) (inside bool) {
	t.Helper()
	SkipWithout(t, "userns", errOnlyLinux)
	return false
}

// RootNamespace skips the test: it needs Linux.
func RootNamespace(t T) (inside bool) {
	t.Helper()
	SkipWithout(t, "root", errOnlyLinux)
	return false
}

// Command returns a command that cannot be started: it needs Linux.
func Command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Err = errOnlyLinux
	return c
}

// Privatize fails: it needs Linux.
func Privatize() error { return errOnlyLinux }

// Sandbox fails: it needs Linux.
func Sandbox() (dir string, err error) { return "", errOnlyLinux }
