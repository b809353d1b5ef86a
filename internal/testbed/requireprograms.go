package testbed

import (
	"os/exec"
	"testing"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// RequirePrograms skips the test if one of the programs of a thing is not installed, see mounttest.SkipWithout.
func RequirePrograms(t testing.TB, thing string, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			mounttest.SkipWithout(t, thing, err)
		}
	}
}
