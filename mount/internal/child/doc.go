// Package child makes system calls in child processes, for calls that can block forever. A
// blocked thread would keep the whole calling process from exiting; a blocked child
// affects neither the process nor its threads.
//
// # Glossary
//
//   - Process: a child process that shares the memory of its parent, as after vfork(2),
//     makes a list of system calls and exits. It runs no Go code.
//   - Superblock: a mounted file system in the kernel. It ends with its last mount, and its
//     end can wait for a device or a server.
//   - Hold: a detached clone of a mount. The superblock outlives the mount through it, so
//     umount2(2) returns without waiting for the superblock's end.
//   - Guard: a child with the last descriptor of a hold, whose exit ends the superblock.
//   - Probe: a statfs(2) in a child, which shows whether a file system responds.
//
// # Guarantees
//
//   - A child keeps no descriptor open besides its own one (Linux 5.9), so it keeps no
//     other mount busy.
//   - At most one probe per mount is in flight, shared by all callers.
//   - Without permission or resources for a child, a hold is closed by a goroutine, and a
//     probe reports that the file system responds.
package child
