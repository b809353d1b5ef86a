// Package fuseserver runs FUSE file systems for tests, each in a process of its own: the
// kernel's requests and the answers to them as linux/fuse.h has them, and commands by which
// a test has the file system hang. A [Handler] decides the content of the file system.
//
// The process of a file system ends with the test's: a process that serves the requests of
// its own threads could not be killed.
package fuseserver
