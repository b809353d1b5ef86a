// Package local is the volume plugin "kubernetes.io/local-volume": directories and
// disks of this node as persistent volumes.
//
// Which they may be is for the embedder to say, in [Config.Roots] and
// [Config.DeviceLinks]: whoever writes PersistentVolumes must not reach the rest of
// the node. Below a root no symbolic link is followed, so a pod that swaps a directory
// inside its volume for a link gains nothing. The directories of the pods and the
// plugins, volume.VolumeHost.OwnDirs, are no local volumes: a path that is one of
// them, is in one or has one in it is refused.
//
// # Directories
//
// A directory is bound where the pod expects it, read-only if its claim, its mount
// options or the pod say so. It stays what it is: nothing is created or removed in
// it, neither by SetUp nor by TearDown. One with something mounted below it is refused
// (mount.ErrSubmounts): the volume would not show it.
//
// The options of a volume are those of mount(8) that are flags of a bind mount:
// ro, noexec, noatime, ... It is mounted nosuid and nodev unless the mounter
// allows otherwise.
//
// # Disks
//
// A block device, right in a root or by way of a link in DeviceLinks, is mounted once
// for the node by MountDevice, at
//
//	<root>/plugins/kubernetes.io~local-volume/mounts/<volume>
//
// and bound from there for each pod. The options may be those of its file system, too.
//
// A device that is blank is formatted first: ext4, or ext2, ext3, xfs or btrfs as the
// volume's fsType says. Blank is one of which the first two MiB and the last one are
// zeros; see util/diskprobe. One that carries anything else than a file system of the
// type asked for is left as it is, a [ContentError], whatever blkid says. What was on
// the device is recorded below the plugin's directory: in its place, another one, blank
// or not, is [ErrDeviceSwapped] until [Plugin.Forget]. Formatting that was interrupted
// begins again, if the device is the same for sure and carries nothing but what it has
// left: it begins with a marker in the first sector, which others overwrite.
//
// The programs that format, check and grow get the device that was looked at, as an open
// file: a path may lead to another one at any time.
//
// They are run by k8s.io/mount-utils, which logs by way of k8s.io/klog/v2, by default to
// the standard error: klog.SetSlogLogger or klog.SetOutput of that package directs it
// elsewhere.
//
// SetUp does not format, and UnmountDevice leaves the record where it is.
//
// # Raw devices
//
// In block mode a pod gets a link to the device, where the kubelet has it:
//
//	<root>/pods/<pod UID>/volumeDevices/kubernetes.io~local-volume/<volume>
//
// While a volume is mapped a loop device on it, the hold, keeps it from vanishing. It
// is read-only, and what a pod gets that only reads. What the device carries is nobody's
// business: another one in its place is [ErrDeviceSwapped] while the volume is held, and
// later if both have an identity of their hardware's. Its pages are cached apart from
// the device's: a reader may see what a writer has changed since only later.
//
// # Ownership
//
// With FsGroup all that is in a volume changes its group before it is mounted, see
// util/ownership. While pods use the volume it keeps the group that it has: a pod that
// asks for another is an [OwnerConflict]. FsUser has no effect, as in Kubernetes. With
// [Config.MapGroups] a volume that has been prepared for a group is shown as the pod's
// instead, and not changed.
//
// Sizes and SELinux labels are not managed: a SetUp with DesiredSize or SELinuxLabel
// is refused with an error that wraps volume.ErrNotSupported, and nothing is changed.
package local
