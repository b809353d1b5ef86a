// Package mount mounts, unmounts and answers questions about mounts, by system
// call. It links nothing of Kubernetes.
//
// # What it promises
//
// A mount is made where nobody sees it, given its flags, attached by file
// descriptor, and verified: it appears complete or not at all, and a read-only one
// is never writable. A source and a target are resolved once, and never through a
// symbolic link. Mounting is idempotent, and so is unmounting. Whether a path is a
// mount point is asked of the mount table, never of what is mounted there.
//
// Calls that take a context return soon after it ends; [Interface] says what is
// true then. Errors are of type [*Error] or [*InputError].
//
// # How it mounts
//
// Three sets of system calls keep these promises, see [Tier]: the newest that the
// kernel has is used, and a system call filter that forbids the newer ones is
// taken for an older kernel. /proc has to be mounted, for umount2(2) takes nothing
// but paths. Where statmount(2) is missing (before Linux 6.8), two processes that
// mount one target in the same instant may both succeed, one on top of the other;
// within a process they never do.
//
// # When not to use it
//
//   - To mount what needs a helper program in user space, such as mount.cifs.
//   - To enter or leave mount namespaces: it works in that of the process.
//   - To watch the mount table: each question about all of it reads all of it.
//   - On other systems than Linux, where calls that need the kernel return an error
//     that wraps errors.ErrUnsupported. [ParseOptions] and [Table] work anywhere.
package mount
