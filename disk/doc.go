// Package disk makes block devices ready for use: it probes, formats, checks, mounts and
// grows them. It is what SafeFormatAndMount and ResizeFs of k8s.io/mount-utils are for,
// with a context, typed errors and a crash-safe format.
//
//	disks := disk.New(disk.Config{Mounter: mount.New(mount.Config{})})
//	err := disks.FormatAndMount(ctx, disk.MountRequest{      // NodeStageVolume
//		Device: "/dev/disk/by-id/virtio-7f2c", Target: staging, FSType: "xfs", Grow: true,
//	})
//	sizes, err := disks.Grow(ctx, disk.GrowRequest{Target: staging}) // NodeExpandVolume
//
// # Glossary
//
//   - device: a block device, by the path of its node, or of a symbolic link to the node.
//   - content: all signatures and data on a device, see util/diskprobe.
//   - blank: the first two MiB and the last one are zeros. Only a blank device is
//     formatted.
//   - marker: a sector at the start of a device from before mkfs starts until the file
//     system is verified.
//   - remains: the marker and the blocks that an interrupted mkfs has left. The next
//     format replaces them.
//   - in use: mounted, swap, a part of a RAID or a volume group, or below a loop device.
//   - claim: keeps other calls of the same Disks from the device, its disk and its
//     partitions.
//   - stack: the devices that change together with a device: the disk of a partition, the
//     members of a RAID.
//   - identity: the hardware ID of a device, and the number that the kernel gives to each
//     device once.
//   - program: mkfs.*, fsck.*, resize2fs, xfs_growfs, btrfs. A program gets the device as
//     an open file, so a path that changes does not redirect the program.
//
// # Safety
//
// A device that carries data of any kind is never formatted: a file system, a partition
// table, a member of a RAID or a volume group, swap, encryption, unknown bytes
// ([ContentError]). Nothing is written to a device that is in use ([ErrInUse]) or
// read-only ([ErrReadOnly]). No program guesses: the decision is made on the bytes of the
// device, and mkfs runs only after they were read. Only the first two MiB
// and the last MiB are searched for data.
//
// # Crashes and repetition
//
// Each call may be repeated. A file system is made with a UUID of its own, and the device
// carries the marker until the file system is verified. After SIGKILL, a kill of mkfs or
// the end of the context, the same call recognizes the remains and formats again: before
// the end of the first format nothing of value can be on the device. Another program that
// writes to the device overwrites the marker, or leaves a signature; then the device
// belongs to that program, and the call returns a ContentError.
//
// # Contexts
//
// A call returns at most 100 ms after the end of its context, also if the device does not
// answer. Programs and their children are killed then. If a program may have changed the
// device, the error wraps mount.ErrUncertain. A device that does not answer costs one
// stuck call; later calls for the device wait for the end of that call or of their own
// context.
//
// # Limits
//
// The file systems are ext2, ext3, ext4, xfs and btrfs. Block devices need Linux; on other
// systems each call returns an error that wraps errors.ErrUnsupported. Package disktest
// has disks in memory for the tests of drivers. A directory as a volume needs package
// mount alone.
package disk
