// Package ownership gives all that is in a directory to a user and a group: what
// Kubernetes does for a pod's fsGroup. It changes no content, and nothing else.
//
// [Apply] makes true of each entry, and of the directory itself: it belongs to the
// user and the group that are asked for. With a group, each but symbolic links has
// mode 0660 besides the bits that it has, or 0440 if it is only to be read, and
// each directory 0770 (0550) and set-group-ID, so that what is created in it later
// belongs to the group, too. What is right already is not touched. Whatever others
// do in the directory at the same time:
//
//   - Nothing outside is changed. Every step goes from one open directory to an
//     entry of it, by openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS,
//     RESOLVE_NO_MAGICLINKS and RESOLVE_NO_XDEV, or, where the kernel or a filter
//     refuses that, by an O_PATH descriptor that is looked at before it is used. What
//     is changed was looked at by the same descriptor. Links are never followed: a
//     symbolic link gets the owner itself, and no mode.
//   - Nothing that is mounted below is changed, whenever it was mounted. It is
//     counted, see [Counts].
//   - Nothing is opened for reading or writing but directories: no FIFO, no device.
//   - Memory and descriptors are bounded by the number of workers, but for the
//     names of the directories that lead to where one is.
//   - The end of a context ends a call, also while a file system does not answer.
//
// The directory itself is changed last, and only if all that is in it is right. So
// whoever was interrupted or has got an error calls again. Before the first change for
// a group it loses set-group-ID until then. So [OnRootMismatch] never takes a half-done
// directory for a done one, whatever group it had before and whatever group is asked
// for. An owner without a group has no such mark: whoever was interrupted on the way
// to another User alone, and goes back to the one before, does not use OnRootMismatch.
//
// # What attackers can gain
//
// A hard link is the file: one in the directory to a file elsewhere in the same file
// system cannot be told from a file with two names, and that file is changed. In a
// volume that only pods write to there are none, since link(2) does not go beyond a
// mount, and a volume is one to its pod. Where others have put files into the
// directory, or it is a part of a file system whose rest the pod sees as well, they
// may have.
//
// No program becomes set-user-ID or set-group-ID of somebody else: what Apply changes
// loses these bits, unless it is a directory, and what needs no change keeps them.
// This differs from the kubelet, which gives them back after it has changed the
// group.
//
// What somebody creates or moves where the walk has been is not seen. Apply is for
// volumes that their pods do not use yet.
//
// # Without a walk
//
// Where all files have the same group on disk, and modes that let it in, a bind mount
// with mapped IDs shows another group at once, however many files there are: see
// SwapGroups of package mount, for IDMap of its Request. The file system has to be
// able to, or else that mount fails with errors.ErrUnsupported. Nothing here does it
// by itself: whether all files are so nobody knows without a walk.
//
//	err := mounter.Mount(ctx, mount.Request{
//		Source: disk, Target: volume, IDMap: mount.SwapGroups(groupOnDisk, fsGroup),
//	})
//
// It needs Linux 4.11. On other systems Apply fails with errors.ErrUnsupported.
package ownership
