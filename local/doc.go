// Package local is the volume plugin "kubernetes.io/local-volume": directories of
// this node as persistent volumes.
//
// A local volume is bound where the pod expects it, read-only if its claim, its
// mount options or the pod say so. The directory stays what it is: nothing is
// created, changed or removed in it, neither by SetUp nor by TearDown.
//
// Which directories may be volumes is for the embedder to say, in [Config.Roots]:
// whoever writes PersistentVolumes must not reach the rest of the node. Below a
// root no symbolic link is followed, so a pod that swaps a directory inside its
// volume for a link gains nothing.
//
// The options of a volume are those of mount(8) that are flags of a bind mount:
// ro, noexec, noatime, ... It is mounted nosuid and nodev unless the mounter
// allows otherwise.
//
// A directory with something mounted below it is refused (mount.ErrSubmounts): the
// volume would not show it.
//
// The directories of the pods and the plugins, volume.VolumeHost.OwnDirs, are no
// local volumes: a path that is one of them, is in one or has one in it is
// refused.
//
// Ownership is not managed yet, nor are sizes and SELinux labels: a SetUp with
// FsUser, FsGroup, DesiredSize or SELinuxLabel is refused with an error that wraps
// volume.ErrNotSupported, and nothing is changed.
//
// Not here: block devices as sources, raw block volumes and expansion.
package local
