// Package local is the volume plugin "kubernetes.io/local-volume": directories and
// disks of this node as persistent volumes.
//
// The embedder permits directories in [Config.Roots] and [Config.DeviceLinks]: a
// PersistentVolume cannot reach the rest of the node. Below a root no symbolic link
// is followed, so a pod that replaces a directory of its volume with a link gains nothing.
// The directories of the pods and the plugins, volume.VolumeHost.OwnDirs, are no local
// volumes: a path that is one of them, inside one or above one is refused.
//
// # Directories
//
// A directory is bind mounted at the pod's path, read-only if its claim, its mount options or
// the pod require it. SetUp and TearDown create and remove nothing in it. A directory with
// mounts below it is refused (mount.ErrSubmounts): the volume would not show them. If the directory
// is removed on the node, whatever takes its place, the volume of a running pod stays as it is (SetUp
// with IsRemount), and TearDown works as ever. A directory that was moved is no longer the volume's: SetUp
// fails until TearDown.
//
// Of the mount options of a volume those that are flags of a bind mount apply: ro, noexec,
// noatime, ... Those that only a file system has (discard, prjquota) and those for the readers of
// fstab (nofail, x-systemd.requires=...) have no effect, as in mount(8), and are in a debug line of
// Config.Logger. The volume is mounted nosuid and nodev unless the mounter allows otherwise.
//
// # Disks
//
// A block device, directly in a root or through a link in DeviceLinks, is mounted once for
// the node by MountDevice, at
//
//	<root>/plugins/kubernetes.io/local-volume/mounts/<volume>
//
// and bind mounted from there for each pod. There the options of its file system apply, too.
//
// MountDevice formats a blank device: ext4, or ext2, ext3, xfs or btrfs by the volume's
// fsType. Package disk decides whether a device is blank. A device with any other content
// than a file system of the requested type is refused and unchanged, a [ContentError]. The
// device is recorded below the plugin's directory: another device in its place, blank or
// not, is [ErrDeviceSwapped] until [Plugin.Forget]. An interrupted format starts again if the
// device is certainly the same and carries nothing but the remains of that format.
//
// The programs that format, check and grow get the inspected device as an open file, since a
// path may lead to another device at any time.
//
// SetUp does not format, and UnmountDevice keeps the record.
//
// # Raw devices
//
// In block mode a pod gets a link to the device, at the kubelet's path:
//
//	<root>/pods/<pod UID>/volumeDevices/kubernetes.io~local-volume/<volume>
//
// While a volume is mapped a read-only loop device on it, the hold, keeps the device from
// vanishing. A pod that only reads gets the hold. The content of a raw device is not
// inspected: another device in its place is [ErrDeviceSwapped] while the volume is held, and
// later if both devices have a hardware identity. The hold has a page cache of its own: a
// reader may see a writer's changes with a delay.
//
// # Claims
//
// A [ProvisioningPlugin] is a plugin that also creates a directory for each claim of its node, limits
// the size by a quota where the file system has project quotas, and deletes the directory.
//
// # Ownership
//
// With FsGroup all files of a volume change their group before the volume is mounted, see
// util/ownership. While pods use the volume it keeps its group: a pod that requests another
// one is an [OwnerConflict]. A file that cannot change its group is an error, unless
// [Config.OnUnchanged] accepts it; a file system that is read-only as a whole keeps its owners.
// FsUser has no effect, as in Kubernetes. With [Config.MapGroups] a volume that has been
// prepared for a group is shown with the pod's group instead, and not changed.
//
// # Volumes of a kubelet
//
// The mounts of a kubelet are at the same paths, those of disks too. SetUp and MountDevice accept
// them and add nosuid and nodev (see util/podvolume); owners do not change then. A kubelet writes no
// record: after a restart ConstructVolumeSpec returns the path of the mounted device if the device is
// in a root, or the path of a link to the device in [Config.DeviceLinks]. Raw devices that a kubelet
// has mapped stay mapped and held until the kubelet unmaps them.
//
// Sizes and SELinux labels are not managed: a SetUp with DesiredSize or SELinuxLabel is
// refused with an error that wraps volume.ErrNotSupported, and nothing changes.
//
// # Glossary
//
//   - root: a directory of [Config.Roots]. Volumes are directories and devices below it.
//   - device link: a symbolic link in a directory of [Config.DeviceLinks] that leads to a device.
//   - device: the block device of a volume, a disk or a partition. Disk: the whole device.
//   - place: the position of a directory in its file system, independent of its path.
//   - device mount: the mount of a device for all pods of the node.
//   - record: the file below the plugin's directory that identifies the device of a volume.
//   - state of a record: formatting, before a format; mounted, since the first mount.
//   - signature: the bytes by which a device's content is recognized. A blank device has none.
//   - situation, step: the facts that decide whether a device is formatted, and the decision.
//   - swapped: another device is in the place of the recorded one.
//   - forget: remove the record, so that another device may take the place.
//   - hold: the read-only loop device that keeps a mapped device from vanishing.
//   - directory lock: shared by SetUps that change no owners, or exclusive; it also locks all
//     directories that overlap its own.
//   - claim root: a directory of [ProvisioningConfig].ClaimRoots, in which directories are created.
//   - claim record: the file in a claim root that marks a directory as provisioned.
//   - project: a number of a file system that its files have, and by which a quota limits them.
//   - owner: the group of a volume's files. View: a mount that shows them with another group.
package local
