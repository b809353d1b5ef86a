// Package volumekit is the map of a library with which a program embeds the
// Kubernetes volume lifecycle: find the plugin for a volume, mount it for a pod,
// take it down again. This package itself is empty; the rooms of the house are
// packages of their own, to be imported one by one.
//
// # The rooms
//
//   - mount: the kernel. Mount, unmount, ask the mount table, by system call.
//     [github.com/volumekit/volumekit/mount]
//   - mount/mountutils: the bridge to and from k8s.io/mount-utils.
//     [github.com/volumekit/volumekit/mount/mountutils]
//   - mount/mounttest: an in-memory kernel for unit tests, and namespaces in
//     which tests mount for real without being root.
//     [github.com/volumekit/volumekit/mount/mounttest]
//   - volume: the nouns. Spec, VolumePlugin, VolumePluginMgr, VolumeHost,
//     Mounter, Unmounter, and the errors that say what is true after a failure.
//     [github.com/volumekit/volumekit/volume]
//   - volume/volumetest: a fake plugin, and the contract that every plugin
//     passes. [github.com/volumekit/volumekit/volume/volumetest]
//   - manager: the node's volume manager: what the pods of a node want is mounted, kept
//     and taken down; manifests reads the pods from files.
//     [github.com/volumekit/volumekit/manager]
//   - local: the plugin kubernetes.io/local-volume, directories and disks.
//     [github.com/volumekit/volumekit/local]
//   - emptydir, hostpath: the plugins kubernetes.io/empty-dir and kubernetes.io/host-path.
//     [github.com/volumekit/volumekit/emptydir]
//     [github.com/volumekit/volumekit/hostpath]
//   - content: the plugins kubernetes.io/configmap, secret, downward-api and projected.
//     [github.com/volumekit/volumekit/content]
//   - nfs: the plugin kubernetes.io/nfs.
//     [github.com/volumekit/volumekit/nfs]
//   - recycler: empties released volumes, by a pod or in process; recyclertest is a
//     cluster in memory. [github.com/volumekit/volumekit/recycler]
//   - util: taking mount points down, and helpers for options and modes.
//     [github.com/volumekit/volumekit/util]
//   - util/ownership, util/subpath, util/atomicdir: a volume's files given to a group, a
//     path inside a volume bound for a container, and files that change all at once.
//     [github.com/volumekit/volumekit/util/ownership]
//     [github.com/volumekit/volumekit/util/subpath]
//     [github.com/volumekit/volumekit/util/atomicdir]
//   - util/metrics, util/diskprobe, util/loop: how full a volume is, what is on a disk,
//     loop devices. [github.com/volumekit/volumekit/util/metrics]
//   - util/quantity: sizes that somebody else wrote.
//     [github.com/volumekit/volumekit/util/quantity]
//   - util/safepath, util/scrub, util/keylock, util/fsusage, util/ctxend: paths that no
//     symbolic link leads astray, emptying a directory of what is not mounted there,
//     locks by name, how full a file system is, the ends of contexts. Packages under
//     util depend on nothing else of ours.
//   - examples: programs, one in each folder. Nothing imports them.
//
// # Who may enter
//
// Doors open inwards: a plugin imports volume, mount and util; util imports
// mount and volume; mount and volume do not know each other. A program that only
// mounts imports mount and links nothing of Kubernetes. A test in this folder
// holds the whole table of who may import whom.
package volumekit
