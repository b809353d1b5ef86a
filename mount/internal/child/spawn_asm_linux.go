//go:build amd64 || arm64

package child

// spawn creates a process by clone(2). The child makes the calls and exits with the error
// number of the last one. It has no stack of its own, so flags must include CLONE_VM, and
// all signals must be blocked.
func spawn(flags uintptr, pidfd *int32, calls *call) (pid uintptr)
