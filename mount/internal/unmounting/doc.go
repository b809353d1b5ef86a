// Package unmounting removes mounts from the mount table, also those whose file system does not
// answer. Files:
//
//   - unmounter: the entry points; departure: one mount on its way out.
//   - escalation: busy mounts of a file system that does not answer.
//   - brief_end: superblocks that end within the unmount.
//   - superblock_ends: superblocks that have not ended after the unmount.
//   - tree, removal, isolation, reversion: the unmount of a tree, of a mount with its
//     directory, the end of propagation, and the undoing of a mount of our own.
//
// # Glossary
//
//   - Departure: one mount on its way out of the mount table.
//   - Superblock: a mounted file system in the kernel. It ends with its last mount, and its
//     end can wait for a device or a server.
//   - Outlived: the superblock has another mount, so it does not end with the departure.
//   - Hold: a detached clone of the mount, by which the superblock outlives the mount.
//   - Brief: a tmpfs so small that its end takes a few milliseconds. It needs no hold.
//   - Busy: in use by open files, or by mounts inside (EBUSY).
//   - Escalation: probe the file system of a busy mount; if it does not answer, force, then
//     detach.
//   - Force: umount2(2) with MNT_FORCE. Detach: with MNT_DETACH.
//   - Grace: the time for the probe, and for force, that the [Policy] allows.
//
// # Guarantees
//
//   - No step waits for the file system of the mount: the superblock's end is put off by a
//     hold and left to a guard process, unless the end is brief.
//   - A step that may wait for the file system of the directory runs in a goroutine, and
//     keeps the path locked until it ends.
//   - Only the mount that was found is unmounted. Another mount at its place is not
//     mistaken for it.
package unmounting
