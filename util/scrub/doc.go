// Package scrub deletes the content of a directory, and verifies that nothing is left. It
// is the only code of this module that deletes recursively.
//
// [Open] opens the directory once; from then on it is identified by descriptor, device,
// inode and mount. [Root.Empty] deletes its content, [Root.Check] reads it anew and
// verifies that it is empty. Concurrent changes by other processes cannot break these
// guarantees:
//
//   - Nothing outside is touched. Every step goes from one open directory to an
//     entry of it, by openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS,
//     RESOLVE_NO_MAGICLINKS and RESOLVE_NO_XDEV, or, where the kernel or a filter
//     refuses that, by an O_PATH descriptor that is checked before its use. A
//     symbolic link is removed, never followed. A hard link loses its name; the
//     file remains under its other names.
//   - No mount below is touched, whenever it was mounted. Nothing is deleted in a
//     directory whose mount differs from the root's. Mount points and the
//     directories above them stay, and the error names them.
//   - A subvolume of btrfs, which any user may create, is part of the directory: its
//     content is deleted, and it is removed by rmdir(2), since Linux 4.18. A read-only one,
//     such as a snapshot, is made writable first, and stays so if a mount in it keeps it; only its
//     owner and CAP_FOWNER may do so.
//   - Entries created meanwhile are deleted, too. A process that creates entries without
//     end causes an error after a bounded number of passes, not an endless loop.
//   - Memory and descriptors are bounded by the number of workers, except for the
//     names of the directories on the way to each worker: neither depth nor the
//     size of a directory matters. A worker returns from deep directories by file
//     handle or through "..", verifies the directory, and leaves the rest to a new pass
//     from the root if it is another one.
//   - The end of a context ends a call, also while a file system does not answer. A
//     worker that is stuck then finishes its current system call and does nothing
//     more.
//
// A directory that is moved out of the root while its entries are being deleted may be
// emptied: it was in the root when its deletion began.
//
// Undeletable entries (an immutable file, a file that a server protects, the .nfs* files
// of deleted open files, .snapshot directories) do not end the work: the
// [UnremovableError] names the first of them and counts all.
//
// A directory lost+found at the top of the root stays, emptied: file systems need it, and
// fsck stores recovered files of previous users in it.
//
// The package requires Linux 4.11. On other systems [Open] fails with errors.ErrUnsupported.
package scrub
