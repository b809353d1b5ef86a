package mounttest

import (
	"context"

	"github.com/volumekit/volumekit/internal/testflag"
)

// T has the methods of a test that this package uses: a *testing.T, *testing.B or testing.TB.
// Package testing is not imported, because that would link it into each program that uses a
// [Fake] or [Command].
type T interface {
	Cleanup(f func())
	Context() context.Context
	Error(args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Helper()
	Logf(format string, args ...any)
	Name() string
	Skip(args ...any)
	Skipf(format string, args ...any)
	TempDir() string
}

// SkipWithout ends a test that needs a capability which this machine lacks: "userns" (user
// namespaces), "root", "loop" (loop devices), "fuse", "ptrace", "seccomp", "statmount",
// "mountevents" (of fanotify), "idmap" (of tmpfs), or one of the caller's own. It skips the
// test, or fails it if the environment variable VOLUMEKIT_REQUIRE, a list with commas, names
// the capability: so a machine that should run the test cannot lose it silently.
func SkipWithout(t T, thing string, why any) {
	t.Helper()
	if testflag.Required(thing) {
		t.Fatalf("this machine should have %s (%s): %v", thing, testflag.RequireVariable, why)
	}
	t.Skipf("needs %s: %v", thing, why)
}
