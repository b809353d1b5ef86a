// Package ownership gives a directory and everything in it to a user and a group, as
// Kubernetes does for a pod's fsGroup. It changes owners and modes only.
//
// After [Apply] each entry, and the directory itself, belongs to the requested user and
// group. With a group, each entry but symbolic links has mode 0660 (0440 if read-only)
// besides its own bits, and each directory 0770 (0550) and set-group-ID, so that files
// created in it later belong to the group, too. Entries that are right already are not
// touched. What was changed is read back, except on ext4, XFS, Btrfs and tmpfs: other file
// systems may ignore changes ([ErrIgnored]). Concurrent changes by other processes cannot
// break these guarantees:
//
//   - Nothing outside is changed. Every step goes from one open directory to an
//     entry of it, by openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS,
//     RESOLVE_NO_MAGICLINKS and RESOLVE_NO_XDEV, or, where the kernel or a filter
//     refuses that, by an O_PATH descriptor that is checked before its use. A mode is
//     changed by the descriptor that was checked. Links are never followed: a
//     symbolic link gets the owner itself, and no mode.
//   - No mount below is changed, whenever it was mounted. Mounts are counted, see
//     [Counts].
//   - Only directories are opened for reading: no FIFO, no device.
//   - Memory and descriptors are bounded by the number of workers, except for the
//     names of the directories on the way to each worker.
//   - The end of a context ends a call, also while a file system does not answer.
//
// The directory itself is changed last, and only if everything in it is right, or accepted by
// Options.OnUnchanged, so a call
// that was interrupted or failed can be repeated. Before the first change for a group the
// directory loses set-group-ID until the end. So [OnRootMismatch] never mistakes a
// half-done directory for a done one, for any previous and any requested group. A User without a Group leaves no such mark: after an interrupted change of
// User alone, use Always to return to the previous user.
//
// # Attackers
//
// A hard link is the file: a link in the directory to a file elsewhere in the same file
// system is indistinguishable from a file with two names, and that file is changed. A
// volume that only pods write to has no such links, since link(2) does not cross mounts,
// and a volume is a mount to its pod. Such links are possible if other programs have put
// files into the directory, or if the directory is a part of a file system whose rest the
// pod sees as well.
//
// No program becomes set-user-ID or set-group-ID of another user: a changed entry loses
// these bits, unless it is a directory, and an unchanged entry keeps them. This differs
// from the kubelet, which restores them after it has changed the group.
//
// Entries that are created or moved behind the walk are not seen. Apply is for volumes
// that their pods do not use yet.
//
// # Without a walk
//
// If all files have the same group on disk, and modes that give it access, a bind mount
// with mapped IDs shows another group at once, for any number of files: see SwapGroups of
// package mount, for IDMap of its Request. The file system must support mapped IDs, or
// that mount fails with errors.ErrUnsupported. This package never does that by itself:
// only a walk can show that all files have the same group.
//
//	err := mounter.Mount(ctx, mount.Request{
//		Source: disk, Target: volume, IDMap: mount.SwapGroups(groupOnDisk, fsGroup),
//	})
//
// The package requires Linux 4.11. On other systems Apply fails with errors.ErrUnsupported.
package ownership
