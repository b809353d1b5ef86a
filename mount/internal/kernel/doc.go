// Package kernel reads the identity of files and mounts from the kernel's memory. No
// function here waits for a file system or its server, with the exception of [TopMountID], which
// looks up a name.
//
// # Glossary
//
//   - Descriptor: an open file descriptor, usually opened with O_PATH. A negative number
//     stands for none.
//   - Mount ID: the number of a mount in the mount table. The kernel reuses it after an
//     unmount.
//   - Unique mount ID: a number that the kernel never reuses until the next boot (Linux
//     6.8).
//   - Mount root: the directory or file at which a mount begins.
//   - Device: the number of a file system, as stat(2) and the mount table show it.
//   - Identity: the file behind a descriptor: device, inode, mount.
//   - Location: the mount and the file system of a file, without the inode.
//   - Cached lookup: a path lookup that fails with EAGAIN instead of waiting (RESOLVE_CACHED,
//     Linux 5.12).
//
// # Guarantees
//
// Older kernels answer through slower calls, or with an error that wraps
// errors.ErrUnsupported. The package holds no state besides its switches for tests, and
// does not depend on the packages above it.
package kernel
