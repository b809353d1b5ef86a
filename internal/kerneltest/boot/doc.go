// Package boot starts a kernel as an ordinary program, with a test binary in it,
// and brings back the test's output and exit code.
package boot
