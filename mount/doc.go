// Package mount mounts, unmounts and reads the mount table, by system call. It imports no
// package of Kubernetes.
//
// # Guarantees
//
// A mount is built detached, receives its flags, is verified, and is then attached by file
// descriptor: it appears complete or not at all, and a read-only mount is never writable. A
// source and a target are resolved once, and never through a symbolic link. Mount and
// Unmount are idempotent. A mount point check reads the mount table, never the mounted file
// system.
//
// A call returns within 100 ms of the end of its context, on a machine that is not
// overloaded, even if a file system on its way does not answer; [Interface] states the
// condition of the mount then. This prints the times of your machine, call by call:
//
//	VOLUMEKIT_REQUIRE=timing go test -v -run TestReturnLatency ./mount
//
// Errors are of type [*Error] or [*InputError].
//
// # Glossary
//
//   - target: the mount point of a request. Source: the directory, device or export.
//   - bind mount: a mount of a directory or file that another mount shows already.
//   - detached mount: a mount outside of the tree, reachable by descriptor alone.
//   - attach: make a detached mount visible at its target.
//   - tier: a set of system calls that keeps the guarantees, see [Tier].
//   - helper: a program mount.TYPE that mounts a file system type.
//   - mount table: the list of /proc/self/mountinfo. Hidden: under another mount.
//   - anchor: a private clone of a crowded mount, from which bind mounts are made.
//   - propagation, peer group, slave: see mount_namespaces(7).
//   - busy: in use by open files, or by mounts inside (EBUSY).
//   - escalation: the steps of an unmount whose file system does not answer.
//   - uncertain: not known whether the mount exists, see [ErrUncertain].
//
// # Mounting
//
// Three sets of system calls keep the guarantees, see [Tier]: the newest that the kernel has
// is used, and a system call filter that forbids newer ones makes the kernel count as older.
// /proc has to be mounted, since umount2(2) takes paths only. Without statmount(2) (before
// Linux 6.8), two processes that mount one target in the same instant may both succeed, one
// on top of the other; within a process they never do.
//
// The kernel inspects every mount attached in the source's mount for a bind mount. From 256
// such mounts on the source's mount is cloned once (Linux 6.15), and bind mounts are made
// from this anchor, which has none. The anchor keeps the file system alive for some two
// seconds after its last use, or until its mount is unmounted by the same [Mounter], or
// until [Mounter.Close].
//
// # Reading the mount table
//
// Queries do not read the whole table. The kernel reports mounts that come and go (fanotify,
// Linux 6.15), or that the table has changed (poll on mountinfo), and a query reads the few
// mounts of its answer (statmount, Linux 6.8). Without these calls, and for [Mounter.List],
// the table is read. No goroutine runs between queries.
//
// Reported mounts show whether the source of a bind mount has mounts below it (Linux 6.15).
// On older kernels a clone of the source shows it, which inspects every mount in the
// source's mount once, but does not read the table: by the IDs of the cloned mounts (Linux
// 6.8), or, with a long table, in a staging directory. An unbindable mount shows in the table
// alone, and is ignored then.
//
// The kernel does not report the renaming of a directory that contains a mount point. Answers
// are read live, so they are right nevertheless; but from Linux 6.15 on a mount below a
// source is searched at the path where it was attached.
//
// # Resolving paths
//
// Components in the kernel's caches are resolved at once (RESOLVE_CACHED, Linux 5.12). Others
// are resolved one by one, in a goroutine of its own, one for each mount at a time: however
// often paths of a dead server are used, one call hangs, and calls for other mounts do not
// wait.
//
// # When not to use it
//
//   - To enter or leave mount namespaces: it works in that of the process.
//   - On other systems than Linux, where calls that need the kernel return an error
//     that wraps errors.ErrUnsupported. [ParseOptions] and [Table] work anywhere.
package mount
