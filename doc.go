// Package volumekit is the index of a library with which a program embeds the
// Kubernetes volume lifecycle: find the plugin of a volume, mount the volume for a pod,
// unmount it, and keep all volumes of a node in their desired state. This package itself is
// empty; programs import the packages below one by one.
//
// # Packages
//
//   - mount: mounts, unmounts, and queries the mount table, by system call.
//     [github.com/volumekit/volumekit/mount]
//   - mount/mountutils: adapters to and from k8s.io/mount-utils.
//     [github.com/volumekit/volumekit/mount/mountutils]
//   - mount/mounttest: an in-memory kernel for unit tests, and namespaces in which tests
//     mount without being root.
//     [github.com/volumekit/volumekit/mount/mounttest]
//   - volume: the common types. Spec, VolumePlugin, VolumePluginMgr, VolumeHost, Mounter,
//     Unmounter, and the errors that state the condition after a failure.
//     [github.com/volumekit/volumekit/volume]
//   - volume/volumetest: a fake plugin, and the tests of the contract of plugins.
//     [github.com/volumekit/volumekit/volume/volumetest]
//   - manager: the node's volume manager, which sets up, keeps and tears down the volumes of
//     the node's pods; manifests reads the pods from files.
//     [github.com/volumekit/volumekit/manager]
//     [github.com/volumekit/volumekit/manager/manifests]
//   - disk: probes, formats, checks, mounts and grows block devices; disktest has disks in
//     memory. [github.com/volumekit/volumekit/disk]
//   - local: the plugin kubernetes.io/local-volume, directories and disks.
//     [github.com/volumekit/volumekit/local]
//   - emptydir, hostpath: the plugins kubernetes.io/empty-dir and kubernetes.io/host-path.
//     [github.com/volumekit/volumekit/emptydir]
//     [github.com/volumekit/volumekit/hostpath]
//   - content: the plugins kubernetes.io/configmap, secret, downward-api and projected.
//     [github.com/volumekit/volumekit/content]
//   - nfs: the plugin kubernetes.io/nfs.
//     [github.com/volumekit/volumekit/nfs]
//   - flexvolume: the plugin of Flexvolume drivers.
//     [github.com/volumekit/volumekit/flexvolume]
//   - recycler: empties released volumes, by a pod or in process; recyclertest is a
//     cluster in memory. [github.com/volumekit/volumekit/recycler]
//   - util: unmounts and removes mount points; mount options, access modes, unique names.
//     [github.com/volumekit/volumekit/util]
//   - util/podvolume: the shared parts of plugins: volumes of pods that are a mount or a
//     directory. [github.com/volumekit/volumekit/util/podvolume]
//   - util/ownership, util/subpath, util/atomicdir: give a volume's files to a group, bind a
//     path inside a volume for a container, and replace a set of files at once.
//     [github.com/volumekit/volumekit/util/ownership]
//     [github.com/volumekit/volumekit/util/subpath]
//     [github.com/volumekit/volumekit/util/atomicdir]
//   - util/metrics, util/diskprobe, util/loop: usage of volumes, contents of disks, loop
//     devices. [github.com/volumekit/volumekit/util/metrics]
//   - util/quantity: checks of quantities from untrusted sources.
//     [github.com/volumekit/volumekit/util/quantity]
//   - util/safepath, util/scrub, util/keylock, util/fsusage, util/ctxend, util/progress: paths
//     safe from symbolic links, deleting a directory's content without its mounts, locks by
//     name, usage of file systems, ends of contexts, reports of long steps. These packages
//     import no package of this module outside of util and internal.
//   - examples: one program or package per folder, to be copied. No package imports them.
//
// The cluster side is a module of its own, which requires client-go; its doc.go is its map:
// github.com/volumekit/volumekit/controllers.
//
// # Contexts
//
// A function that may wait for a file system, a device or a server takes a context and
// returns within 100 ms of its end, even if a file system hangs. A system call that has not
// ended then continues without the caller, holds its locks, and cannot change the result of
// a later call. Other functions touch memory only; the few exceptions say so.
//
// # Imports
//
// Imports run one way: a plugin imports volume, mount and util; util imports mount and
// volume; mount and volume do not import each other. A program that only mounts imports
// mount and links nothing of Kubernetes. The root module imports nothing of controllers.
// deps_test.go in this folder is the whole table of allowed imports.
//
// mount, manager, volume/volumetest and mount/mounttest stand on rooms in their folders
// internal, one subject each, which never import the package above them.
package volumekit
