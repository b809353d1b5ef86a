// Package record reads mounts from the kernel one by one, by statmount(2) and listmount(2)
// (Linux 6.8), instead of the whole mount table.
//
// # Glossary
//
//   - Record: the kernel's description of one mount: numbers, flags, and the strings of a
//     line of the mount table.
//   - Want mask: the parts of a record that a caller reads. The kernel omits empty strings
//     and parts that it lacks; [Record.Has] reports which.
//   - Unique mount ID: the name of a mount in every call. The kernel never reuses it.
//   - Kind: the magic number of a file system's type, as statfs(2) reports it.
//   - Local: a kind of file system that answers lookups of cached names without revalidation.
//
// # Guarantees
//
//   - No call involves a file system or its server, so no call waits for one.
//   - On kernels without the calls, and behind filters that forbid them, errors wrap
//     errors.ErrUnsupported. A mount that has left is unix.ENOENT.
//   - The package reads; it changes no mount.
package record
