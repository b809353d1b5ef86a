// Package scrub deletes all that is in a directory, and says whether nothing is
// left. It is the one place in this module that deletes recursively.
//
// What is to be emptied is opened once, see [Open], and from then on known by its
// descriptor, device, inode and mount. [Root.Empty] deletes, [Root.Check] looks
// again with fresh eyes. Whatever others do in the directory at the same time:
//
//   - Nothing outside is touched. Every step goes from one open directory to an
//     entry of it, by openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS,
//     RESOLVE_NO_MAGICLINKS and RESOLVE_NO_XDEV, or, where the kernel or a filter
//     refuses that, by an O_PATH descriptor that is looked at before it is used. A
//     symbolic link is removed, never followed. A hard link loses its name, and the
//     file lives on where else it has one.
//   - Nothing that is mounted below is touched, whenever it was mounted. Each
//     directory must have the root's device and mount, or nothing in it is
//     deleted. What is mounted, and the directories above it, are left and named in
//     the error. That goes for another subvolume of btrfs as well.
//   - What is created meanwhile is deleted, too. Somebody who goes on and on creating
//     gets an error after a bounded number of passes, not an endless loop.
//   - Memory and descriptors are bounded by the number of workers, but for the
//     names of the directories that lead to where one is: neither depth nor the
//     size of a directory matters. The way back up from deep down goes through "..",
//     and is given up for a new pass from the root if that is another directory than
//     the one come from.
//   - The end of a context ends a call, also while a file system does not answer.
//     What it left running finishes the one system call it is in, and does nothing
//     more.
//
// A directory that is moved out of the root while its entries are being deleted may be
// emptied to the end: it was to be deleted when the work on it began.
//
// What cannot be deleted (an immutable file, one that a server forbids, the
// .nfs* files of those who have deleted files open, .snapshot directories) does not
// end the work: the first of it are named in the [UnremovableError], and all is
// counted.
//
// A directory lost+found right in the root stays, emptied: file systems need it, and
// fsck puts there what it finds of whoever had the volume before.
//
// It needs Linux 4.11. On other systems [Open] fails with errors.ErrUnsupported.
package scrub
