//go:build amd64 || arm64

package mount

// spawn makes a process with clone(2), which makes the calls and exits with the
// error number of the last. It must share memory (CLONE_VM), and no signal may
// reach it: it has no stack of its own.
func spawn(flags uintptr, pidfd *int32, calls *call) (pid uintptr)
