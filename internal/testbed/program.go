package testbed

import (
	"flag"
	"os"
	"runtime"
	"strconv"
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
	WaitTogether()
	os.Exit(m.Run())
}

// WaitTogether lets more parallel tests run at once than there are processors, unless -parallel says how many: in
// packages with tests that wait for most of their time, for programs or for the end of a context.
func WaitTogether() {
	if err := flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
}
