package mounttest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// requireVar lists what this machine is known to have. A test that needs one of
// these things and does not get it fails there instead of being skipped.
const requireVar = "VOLUMEKIT_REQUIRE"

// SkipWithout ends a test that needs something which this machine lacks: "userns"
// (user namespaces), "root", "loop" (loop devices), "fuse", "ptrace", "seccomp",
// "statmount", "mountevents" (of fanotify), "idmap" (of tmpfs), or a thing of the
// caller's own. It skips the test, or fails it if the environment variable
// VOLUMEKIT_REQUIRE, a list with commas, names the thing: so that a machine that
// should run the test cannot lose it silently.
func SkipWithout(t testing.TB, thing string, why any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(requireVar), ","), thing) {
		t.Fatalf("this machine should have %s (%s): %v", thing, requireVar, why)
	}
	t.Skipf("needs %s: %v", thing, why)
}
