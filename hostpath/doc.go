// Package hostpath is the volume plugin "kubernetes.io/host-path": directories, files,
// sockets and devices of this node, as a pod or a persistent volume names them by
// path.
//
//	plugin := hostpath.New(hostpath.Config{Mounter: m, Roots: []string{"/var/log/pods", "/run/agent.sock"}})
//
// Which paths may be volumes is for the embedder to say, in [Config.Roots]; by itself
// none is. A path is taken as it is written: below a root no symbolic link is followed,
// neither to open what is there nor to create what is missing, so whoever may write
// there gains nothing by swapping something for a link. The directories of the pods and
// the plugins, volume.VolumeHost.OwnDirs, are no volumes, nor is what leads to them.
//
// Unlike the kubelet, which hands the path through, the plugin binds it where the
// pod's volumes are, read-only if the claim, the mount options or the pod say so. What
// the pod gets is the very thing that was looked at when it was set up, also if somebody
// puts another in its place (a mounter over k8s.io/mount-utils, which takes paths alone,
// mounts what is there by then).
//
// # Types
//
// A HostPathType says what has to be there, or is created if nothing is:
//
//	(none)             anything
//	Directory          a directory
//	DirectoryOrCreate  a directory; created with its parents below the root, mode 0755
//	File               a regular file
//	FileOrCreate       a regular file; created empty, mode 0644, its parent must exist
//	Socket             a Unix socket
//	CharDevice         a character device
//	BlockDevice        a block device
//
// Modes are before the umask. If something else is there, or nothing, the error is a
// [*TypeError], and transient: the node can change. For a type that is a device the
// mount has the option dev, without which nobody can open it: the mounter must allow
// that (mount.Config.Allow). All other volumes are mounted nodev, unless a persistent
// volume has the option dev, and nosuid unless the mounter allows otherwise.
//
// The path of a volume that is no directory is a file.
//
// # Mounts below the path
//
// By themselves they make SetUp fail (mount.ErrSubmounts): the volume would not show
// what the path does. [Config.Submounts] can include them.
//
// What is mounted below the path while the volume is up is not seen in it, nor the other
// way round: volumes are private binds. With [Config.Propagation] the node's later mounts
// are seen in the volume, or those of either in the other, if the path is in a mount of the
// node that is shared (mount_namespaces(7)), as all are that systemd makes; if not, nothing
// spreads. It takes a runtime that binds the volume into a container in the same way. Mounts
// that spread have the flags that they were made with: a read-only volume's are not
// read-only, nor is what a pod has mounted nosuid or nodev on the node. So a pod with
// mount.PropagationShared that may mount is as good as root of the node. When such a volume
// comes down, what has spread from it stays on the node; who mounted it unmounts it. Those
// volumes usually need mount.IncludeSubmounts, too: a pod that is started again finds what
// was mounted before.
//
// # What it leaves alone
//
// SetUp creates what its type says. That stays, also if SetUp fails after it: another
// pod may have it by then. TearDown removes nothing but the place where the volume was.
//
// The owners of files are the node's: FsUser and FsGroup of a pod have no effect, as in
// Kubernetes. Sizes and SELinux labels are refused with an error that wraps
// volume.ErrNotSupported.
package hostpath
