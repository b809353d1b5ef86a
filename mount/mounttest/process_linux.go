package mounttest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// A Process carries out a program of a test's own binary, so that it can be killed, or
// hang, without the test. It is the T of what the program calls: helpers that take a
// [require.TestingT] take it, too, and where a test would fail the process ends with
// status 1.
//
// [require.TestingT]: https://pkg.go.dev/github.com/stretchr/testify/require#TestingT
type Process struct {
	Args []string // as given to Program
}

// Errorf says on the standard error what is wrong.
func (Process) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// FailNow ends the process.
func (Process) FailNow() { os.Exit(1) }

// programVar says in a process that Program has started which program it is.
const programVar = "VOLUMEKIT_TEST_PROGRAM"

// Main is for a package's TestMain. It runs the tests, but in a process that [Program]
// has started it runs that one of the programs. It does not return.
func Main(m *testing.M, programs map[string]func(Process)) {
	name, ok := os.LookupEnv(programVar)
	if !ok {
		os.Exit(m.Run())
	}
	program := programs[name]
	p := Process{Args: os.Args[1:]}
	if program == nil {
		p.Errorf("there is no program %q", name)
		p.FailNow()
	}
	program(p)
	os.Exit(0)
}

// Program returns the command for one of the programs that TestMain has given to [Main].
// What it writes to the standard error goes to the test's.
func Program(name string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...) // the name may be one that only root can reach
	c.Env = append(os.Environ(), programVar+"="+name)
	c.Stderr = os.Stderr
	return c
}
