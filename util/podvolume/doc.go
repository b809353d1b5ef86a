// Package podvolume holds the shared parts of plugins: directories of volumes in pods, with
// their mounts, notes and metrics, and the meaning of a pod's volumes and volumeMounts.
//
// A plugin whose volume in a pod is one mount takes [Mounts]; a plugin whose volume is a
// directory, perhaps with a tmpfs on it, takes [Dirs]. A plugin that needs a record of a
// volume after a restart takes [Notes], or the Record of a [Dir].
//
// # Mounts of a kubelet
//
// A kubelet mounts volumes without nosuid and nodev. A SetUp that finds the mount it would
// make, but without one or both of these flags, adds them in place (mount.Request, Remount):
// the mount stays the same one, with its content and its users. Containers that run keep
// their own mounts, which the container runtime made with the flags of before; those that
// start later get nosuid and nodev, as in any volume of this module. A mounter whose
// configuration grants suid and dev (mount.Config.Allow) accepts the weaker mount.
//
// A kubelet mounts a volume writable that all containers of the pod mount read-only. SetUp adds ro
// to such a mount if the mount lacks nosuid or nodev as well, or is shared, as the mounts of a
// kubelet are and those of this module are not. Containers notice nothing: their own mounts are
// read-only. A process of the node that has a file of this mount open for writing keeps SetUp
// from it, with an error that wraps EBUSY. No other flag changes, and no flag is ever removed: any
// other difference is volume.ErrAlreadyMounted.
//
// A directory that a kubelet has noted to be ready is set up, see [Dirs.SetUp].
//
// # Glossary
//
//   - directory: the path of a volume in a pod, below the root of the volume.VolumeHost.
//   - note: a small file, or an extended attribute, beside a directory. It says that the
//     directory is a volume of the plugin, and how the plugin has set it up.
//   - ready: a note of a set-up that has ended. A directory without a ready note is set up
//     again.
//   - notes: the place of a volume's note, with the operations on it.
//   - podDir: one volume of [Dirs] during an operation: its directory, its notes and its lock.
//   - own directory: the directory of a plugin for a pod, or for all pods, of the host. Notes
//     that are files are in it.
//   - record: the part of a note that belongs to the plugin.
//   - view: a second directory of one claim, for a pod that names the claim both to read
//     and to write. The view only reads.
//   - root: a path of the node below which volumes may be, of [HostRoots].
//   - walker: a program part that counts the bytes of a volume without a file system of its
//     own.
//   - transient, uncertain, final: the kinds of errors, see volume.KindOf.
//
// Do not use the package for mounts outside of pods: util.UnmountMountPoint and package
// mount have no host and keep no notes.
package podvolume
