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
// A call returns within 100 ms of the end of its context, on a machine with time for
// it, whatever the file systems do that it has to do with; [Interface] says what is
// true then. What it takes on yours, call by call:
//
//	go test -v -run TestReturnsByContext ./mount
//
// Errors are of type [*Error] or [*InputError].
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
// A bind mount costs the kernel a look at every mount that is attached in the
// source's mount. From 256 of those on the source's mount is cloned once (Linux
// 6.15), and bind mounts are made from the clone, which has none. The clone keeps
// the file system alive for some two seconds after its last use, or until its mount
// is unmounted by the same [Mounter], or until [Mounter.Close].
//
// # How it knows the mount table
//
// The table is not read for each question. The kernel tells which mounts come and go
// (fanotify, Linux 6.15), or that something has changed (poll on mountinfo), and a
// question asks about the few mounts that its answer is about (statmount, Linux
// 6.8). Where that is not to be had, and for [Mounter.List], the table is read.
// Nothing runs between questions.
//
// Whether anything is mounted below the source of a bind mount is known from what the
// kernel has told of mounts that came (Linux 6.15). Before, a clone of the source
// shows it, which looks at every mount in the source's mount once, but does not read
// the table: by the numbers that mounts get (Linux 6.8), or, where the table is long,
// in a staging area. A mount that nobody may bind (unbindable) shows in the table
// alone, and is passed over then.
//
// Nobody tells when a directory with a mount in it is renamed. What a question
// answers is asked live, so it is right all the same; but from Linux 6.15 on a mount
// below a source is looked for where it was attached.
//
// # How it looks up paths
//
// What the kernel has in memory is looked up at once (RESOLVE_CACHED, Linux 5.12).
// What a file system has to be asked for is looked up component by component, in a
// goroutine of its own, one for each mount at a time: however often a dead server's
// directories are asked for, one call is stuck, and others' are not held up.
//
// # When not to use it
//
//   - To enter or leave mount namespaces: it works in that of the process.
//   - To be told of changes of the mount table: it answers questions.
//   - On other systems than Linux, where calls that need the kernel return an error
//     that wraps errors.ErrUnsupported. [ParseOptions] and [Table] work anywhere.
package mount
