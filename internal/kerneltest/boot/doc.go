// Package boot starts a kernel as an ordinary program, with a test binary in it, and returns
// the test's output and exit code.
package boot
