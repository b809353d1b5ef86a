// Package processgroup runs a program in a process group of its own, which ends with the context of
// the run, and with this process.
//
// The group is that of setpgid(2): a daemon that calls setsid(2) leaves it.
package processgroup
