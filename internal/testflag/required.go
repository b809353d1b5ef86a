package testflag

import (
	"os"
	"slices"
	"strings"
)

// RequireVariable is the environment variable with a list, with commas, of the things that the machine has and
// of the suites that the run belongs to.
const RequireVariable = "VOLUMEKIT_REQUIRE"

// Required reports whether VOLUMEKIT_REQUIRE names a thing: a test that needs the thing must not be skipped.
func Required(thing string) bool {
	return slices.Contains(strings.Split(os.Getenv(RequireVariable), ","), thing)
}
