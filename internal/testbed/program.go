package testbed

import (
	"os"
	"testing"
)

// ProgramVariable is the environment variable that makes a test binary the program that it tests. A guest
// inherits variables of this prefix.
const ProgramVariable = "VOLUMEKIT_TEST_IS_PROGRAM"

// Main is the TestMain of a package with a program: in the environment of ProgramVariable it runs the program
// with its own main, so that the race detector sees all of it, and otherwise the tests.
func Main(m *testing.M, start func() (status int)) {
	if os.Getenv(ProgramVariable) != "" {
		os.Exit(start())
	}
	os.Exit(m.Run())
}
