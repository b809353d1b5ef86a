// Package lookup resolves paths within a context's deadline, also through file systems that
// do not answer.
//
// # Glossary
//
//   - Resolver: resolves paths for all callers of one program part, and shares the calls
//     that wait.
//   - Lookup: the resolution of one caller's paths, with its context.
//   - Step: the lookup of one path component in an open directory.
//   - Cached lookup: one openat2(2) from the kernel's memory (Linux 5.12).
//   - Stepwise lookup: the fallback, component by component.
//
// # Guarantees
//
//   - A lookup returns soon after its context ends. A descriptor that arrives later is
//     closed.
//   - At most one call per mount waits for a file system, however often callers resolve
//     paths in a dead server's directories.
//   - A context without an end costs neither a goroutine nor a second call.
//   - Descriptors are opened with O_PATH: nothing is read, and no device is opened.
package lookup
