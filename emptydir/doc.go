// Package emptydir is the volume plugin "kubernetes.io/empty-dir": an empty directory
// for a pod, that its containers share and that goes with it.
//
// By its medium a volume is a directory of this node, a tmpfs ("Memory"), or a
// hugetlbfs ("HugePages" with the one size of page that the pod asks for, or
// "HugePages-2Mi" and the like). Anybody may write to it, as the containers' users are
// not known; with MounterArgs.FsGroup the directory, and what is created in it, is of
// that group. FsUser has no effect, as in Kubernetes.
//
// A tmpfs is as large as the smallest of emptyDir.sizeLimit, MounterArgs.DesiredSize
// and the pod's memory limit, as far as there are such; without any it is as large as
// half of the node's memory, or as [Config] says. The limit of a volume on disk is for
// the embedder to watch, by GetMetrics. What is mounted is nosuid and nodev.
//
// What is in a tmpfs is not swapped to a disk where the kernel can promise that: since
// Linux 6.4, in the initial user namespace (see util.Tmpfs). Elsewhere it may be.
//
// TearDown removes what is in the volume, however deep, by descriptor. It never
// descends into anything that is mounted in it, nor follows a symbolic link, whatever
// the pod swaps meanwhile. What is mounted in it stays, and is named in the error.
//
// That a volume is ready is noted where the kubelet does so, in the directory that the
// plugin has for the pod. A directory without that note is not removed for lack of it:
// SetUp goes on with it, and keeps what is in it.
//
// A read-only use is for who shows the volume to a container to see to: it comes up
// writable. SELinux labels, and MounterArgs.DesiredSize of a volume on disk, are
// refused with an error that wraps volume.ErrNotSupported.
//
// It needs Linux. Huge pages need a mounter that is root on the node, the other media
// work in a user namespace as well.
package emptydir
