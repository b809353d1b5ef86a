package testbed

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testflag"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// RealTime marks a test whose result depends on the load of the machine: it promises or measures real time,
// or counts the calls of an idle program. It skips the test unless VOLUMEKIT_REQUIRE names timing; make
// timing runs the marked tests.
func RealTime(t testing.TB) {
	t.Helper()
	if !testflag.Required("timing") {
		mounttest.SkipWithout(t, "timing", "the test measures real time: make timing")
	}
}

// Attacks marks a test that searches for a race by chance. It skips the test unless VOLUMEKIT_REQUIRE names
// attack; make attack runs the marked tests.
func Attacks(t testing.TB) {
	t.Helper()
	if !testflag.Required("attack") {
		mounttest.SkipWithout(t, "attack", "the test attacks by racing: make attack")
	}
}
