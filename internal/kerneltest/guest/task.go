// Package guest is the first program in a kernel under test: it prepares the guest for the
// test, runs the test, and reports its end.
//
// The guest reads the host's files, tools and test data included, but writes go into its own
// memory. Only the directories in [Task.Writable] are the host's own.
package guest

import "fmt"

// Names in the archive from the host.
const (
	InitFile   = "init"    // this program
	TaskFile   = "task"    // a Task as JSON
	TestFile   = "test"    // the test binary
	ModulesDir = "modules" // holds Task.Modules
)

// TempDir is the guest's directory for temporary files.
const TempDir = "/run/tmp"

// Marks around the test's output on the console. Between them are the test's bytes alone.
const (
	Begin = "\x01volumekit: the test begins\x01\n"
	end   = "\x01volumekit: the test ended: %d\x01\n"
)

// Failed is the exit code of a test that could not be run.
const Failed = 125

// A Task is the host's order to the guest.
type Task struct {
	Args     []string // of the test binary, without its name
	Env      []string
	Dir      string   // to run it in
	Modules  []string // names of files, in the order to load them
	Writable []string // directories of the host
}

// End returns the guest's message about the end of the test.
func End(code int) string { return fmt.Sprintf(end, code) }

// ParseEnd is the inverse of End.
func ParseEnd(line string) (code int, ok bool) {
	_, err := fmt.Sscanf(line, end, &code)
	return code, err == nil
}
