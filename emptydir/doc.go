// Package emptydir is the volume plugin "kubernetes.io/empty-dir": an empty directory of a
// pod, which its containers share and which is removed with the pod.
//
// The medium of a volume is a directory of this node, a tmpfs ("Memory"), or a hugetlbfs
// ("HugePages" with the only page size that the pod requests, or "HugePages-2Mi" and the
// like, if the pod requests pages of that size). A volume without a source is one on disk,
// as by the API server's defaults. All users may write to it, as the containers' users are
// unknown; with MounterArgs.FsGroup the directory and the files created in it belong to that
// group. FsUser has no effect, as in Kubernetes.
//
// The size of a tmpfs is the smallest of emptyDir.sizeLimit, MounterArgs.DesiredSize and the
// pod's memory limit, and at most the memory that pods may use of the node (Config.Node) or
// that the machine has. Without any of these limits it is Config.MemorySize, or else the
// memory that pods may use of the node, or half of the machine's. The embedder enforces the
// limit of a volume on disk, by GetMetrics. Mounts are nosuid and nodev.
//
// A volume that a kubelet has set up, and that its note "ready" confirms, is set up: SetUp keeps
// its files, owner, mode, mount and size, and adds nosuid and nodev to the mount, see
// util/podvolume.
//
// A tmpfs is not swapped to a disk if the kernel can guarantee that: since Linux 6.4, in the
// initial user namespace (see podvolume.Tmpfs). Otherwise it may be.
//
// A program without pods passes a path of its own to SetUpAt, below the host's root or a target
// directory, and tears the volume down with [Plugin.NewUnmounterAt]. A note in the plugin's
// directory then says that the files at the path may be removed.
//
// TearDown removes the volume's files, at any depth, by descriptor. It never descends into a
// mount in the volume, nor follows a symbolic link, even if the pod swaps directories
// meanwhile. Mounts in the volume stay, and the error names them.
//
// A note that a volume is ready is an extended attribute (trusted.volumekit.ready.NAME) of the
// directory that holds the pod's volumes of this plugin, or, if the process or the file system
// does not support it, or with [Config.NoteFiles], a file at the kubelet's place, in the
// plugin's directory for the pod. SetUp does not remove a directory without that note, but completes it and keeps its
// files. A loss of power may lose the note of a volume that was set up shortly before, and
// nothing else.
//
// The volume is set up writable also for a read-only use: the program that binds it into a
// container makes that mount read-only. SELinux labels, and MounterArgs.DesiredSize of a
// volume on disk, are refused with an error that wraps volume.ErrNotSupported.
//
// The package requires Linux. Huge pages require a mounter that is root on the node; the
// other media work in a user namespace as well.
package emptydir
