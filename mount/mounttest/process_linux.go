package mounttest

import (
	"fmt"
	"os"
	"os/exec"
)

// A Process runs a program of a test's own binary, which can be killed, or hang, without the
// test. It is the T of the program's helpers: those that take a [require.TestingT] take it,
// too, and where a test would fail the process ends with status 1.
//
// [require.TestingT]: https://pkg.go.dev/github.com/stretchr/testify/require#TestingT
type Process struct {
	Args []string // as given to Program
}

// Errorf prints a failure on the standard error.
func (Process) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// FailNow ends the process.
func (Process) FailNow() { os.Exit(1) }

// programVar names the program to run in a process that Program has started.
const programVar = "VOLUMEKIT_TEST_PROGRAM"

// Main is for a package's TestMain. It runs the tests; in a process that [Program] has
// started it runs one of the programs. M is a *testing.M. It does not return.
func Main(m interface{ Run() int }, programs map[string]func(Process)) {
	name, ok := os.LookupEnv(programVar)
	if !ok {
		os.Exit(m.Run())
	}
	program := programs[name]
	p := Process{Args: os.Args[1:]}
	if program == nil {
		p.Errorf("%s: no program %q", programVar, name)
		p.FailNow()
	}
	program(p)
	os.Exit(0)
}

// Program returns the command for one of the programs of [Main]. Its standard error is the
// test's.
func Program(name string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...) // the binary's path may be accessible to root alone
	c.Env = append(os.Environ(), programVar+"="+name)
	c.Stderr = os.Stderr
	return c
}
