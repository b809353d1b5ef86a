// Package guest is the first program in a kernel under test: it gives the guest
// what a test expects of a machine, runs the test, and says how it ended.
//
// The guest sees the host's files, so that the tools and test data of the host
// are there, but writes go into its own memory. Only the directories in
// [Task.Writable] are the host's own.
package guest

import "fmt"

// Where the guest finds what the host gave it.
const (
	InitFile   = "init"    // this program
	TaskFile   = "task"    // a Task as JSON
	TestFile   = "test"    // the test binary
	ModulesDir = "modules" // holds Task.Modules
)

// TempDir is the guest's directory for temporary files.
const TempDir = "/run/tmp"

// What the guest writes on its console around the output of the test. Between
// them are the test's bytes and nothing else.
const (
	Begin = "\x01volumekit: the test begins\x01\n"
	end   = "\x01volumekit: the test ended: %d\x01\n"
)

// Failed is the exit code of a test that could not be run.
const Failed = 125

// A Task is what the host wants of the guest.
type Task struct {
	Args     []string // of the test binary, without its name
	Env      []string
	Dir      string   // to run it in
	Modules  []string // names of files, in the order to load them
	Writable []string // directories of the host
}

// End returns what the guest writes when the test has ended.
func End(code int) string { return fmt.Sprintf(end, code) }

// ParseEnd is the inverse of End.
func ParseEnd(line string) (code int, ok bool) {
	_, err := fmt.Sscanf(line, end, &code)
	return code, err == nil
}
