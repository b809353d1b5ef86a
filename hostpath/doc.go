// Package hostpath is the volume plugin "kubernetes.io/host-path": directories, files,
// sockets and devices of this node, as a pod or a persistent volume names them by
// path.
//
//	plugin := hostpath.New(hostpath.Config{Mounter: m, Roots: []string{"/var/log/pods", "/run/agent.sock"}})
//
// The embedder lists the permitted paths in [Config.Roots]; by default there are none. The
// plugin follows no symbolic link except those of [Config.Links], neither to open an entry
// nor to create one, so a pod that may write there gains nothing by replacing a directory
// with a link. The directories of the pods and the plugins, volume.VolumeHost.OwnDirs, and
// the directories above them are refused as volumes.
//
// # Symbolic links
//
// Nodes have links such as /var/run and /etc/localtime. The plugin follows them in
// directories of [Config.Links], if root owns the link and only root can write to its
// directory and those above it, and if the path ends at or below a root. Each component is
// opened once, and the last one opened is mounted. Any other link on the way is a
// [*LinkError].
//
// The kubelet hands the path to the container runtime, see below; this plugin bind mounts it
// in the pod's volume directory, read-only if the claim, the mount options or the pod require it.
// The pod gets exactly the file that SetUp has checked, even if another process replaces it
// meanwhile (a mounter over k8s.io/mount-utils, which takes paths alone, mounts the
// replacement).
//
// # Replaced files
//
// A mount shows the file or directory that it was made of. Daemons replace their sockets, editors
// and package managers their files: a running container keeps the earlier one, as with the
// kubelet. The volume's mount for the pod keeps it, too, so that further containers would also get
// it, until a SetUp without MounterArgs.IsRemount, which is for a container that is about to start (see
// [volume.RenewableVolumePlugin]; with package manager, WaitOptions.NewContainer). That follows
// the path and its links anew, makes a missing file if the type says so, and mounts what it finds. If
// that is missing, or of another type, or cannot be mounted, SetUp fails, and the earlier mount
// stays; so it does while a process of the node has a file open in it, or while another mount is
// inside or beneath it that is not the volume's. (Of a volume with mounts of its own inside, some of
// those may be gone, or have lost their propagation, until a SetUp succeeds.)
//
// A SetUp with IsRemount, as after a restart of the agent, keeps the volume's own mount, without a look
// at the path. To know it SetUp records the path, the options and the unique ID of the mount, see
// podvolume.Notes; the record counts until the next boot. (Before Linux 6.8 mounts have no such
// IDs: then device and inode of the file are compared, which a later file may have again.) It also recovers the path after a restart if the file was replaced, renamed or
// removed. A mount at the pod's path without such a record is compared with the file at the path,
// and never renewed: if it is another one the error wraps [volume.ErrAlreadyMounted].
//
// # In place
//
// With [Config.InPlace] nothing is mounted: the path of the volume is the host path itself,
// and the container runtime resolves it once more. SetUp makes the same checks, of the path,
// its links and its type, but a process that may write there can replace a directory before
// the runtime opens it. A replaced file needs no new SetUp: each container gets what is at the path
// when the runtime starts it. The runtime also has to keep read-only volumes (Attributes.ReadOnly)
// and nosuid, nodev and propagation. Persistent volumes with mount options are refused. A
// read-only view of a claim that the pod also writes to (podvolume.ViewName) is a bind mount
// in any case. TearDown and a SetUp in place unmount what is mounted in the pod's directory for the
// volume, as by an earlier SetUp with mounts.
//
// # Types
//
// A HostPathType requires a kind of file, or creates a missing one:
//
//	(none)             anything; if missing and Config.CreateMissing: DirectoryOrCreate
//	Directory          a directory
//	DirectoryOrCreate  a directory; created with its parents below the root, mode 0755
//	File               a regular file
//	FileOrCreate       a regular file; created empty, mode 0644, its parent must exist
//	Socket             a Unix socket
//	CharDevice         a character device
//	BlockDevice        a block device
//
// Modes are before the umask. If the file is missing or of another kind the error is a
// [*TypeError], and transient: the node can change. It is final if the process may not
// create the path (EPERM). With a device type, or without a type if the file is a device, the
// mount has the option dev, without which opening the device fails: the mounter must allow
// it (mount.Config.Allow), otherwise SetUp fails. All other volumes are mounted nodev, unless
// a persistent volume has the option dev, and nosuid unless the mounter allows otherwise: a
// device in a directory cannot be opened. A persistent volume with the option nodev and
// without a type is mounted nodev.
//
// If the path is not a directory, the volume's path is a file.
//
// # Mounts below the path
//
// By default mounts below the path make SetUp fail (mount.ErrSubmounts): the volume would
// not show them. [Config.Submounts] can include them.
//
// Volumes are private bind mounts: later mounts below the path do not appear in the volume,
// nor the other way round. With [Config.Propagation] the node's later mounts appear in the
// volume, or those of either in the other, if the path is in a shared mount of the node
// (mount_namespaces(7)), as all mounts of systemd are; otherwise nothing propagates. The
// container runtime must bind the volume with the same propagation. Propagated mounts keep
// their own flags: those in a read-only volume are not read-only, nor are a pod's mounts
// nosuid or nodev on the node. So a pod with mount.PropagationShared that may mount is as
// good as root of the node. After the tear-down of such a volume the mounts that propagated
// from it stay on the node; their creator unmounts them. Those volumes usually need
// mount.IncludeSubmounts, too: a pod that is started again finds the earlier mounts.
//
// # Files and owners
//
// SetUp creates files as the type says. They stay, also if SetUp fails afterwards: another
// pod may use them by then. TearDown removes the volume's mount point alone.
//
// The owners of files are the node's: FsUser and FsGroup of a pod have no effect, as in
// Kubernetes. Sizes and SELinux labels are refused with an error that wraps
// volume.ErrNotSupported.
package hostpath
