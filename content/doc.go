// Package content is four volume plugins that write files into pods:
//
//	kubernetes.io/configmap      the keys of a ConfigMap
//	kubernetes.io/secret         those of a Secret
//	kubernetes.io/downward-api   fields and resources of the pod
//	kubernetes.io/projected      all of these in one volume, tokens and certificates
//
// They differ in the source of the bytes, which the embedder supplies by the small
// interfaces in [Config]: a client, a cache or a file. A [MapGetter] implements all of them
// in memory. No cluster is needed.
//
// # Files
//
// The layout is the kubelet's, see package atomicdir: the files of a volume change all
// at once, and readers see the old ones or the new ones. To update a volume call SetUp
// again while it is set up; unchanged files are not written again. The downward API needs
// a mounter made for the current pod object. A volume with tokens or certificates needs
// SetUp again before they expire, see [TokenGetter].
//
// Items select keys and name files; Mode and DefaultMode (0644) are their permissions. A
// missing key is an error unless the source is optional; so is a missing ConfigMap or
// Secret. Both errors are transient.
//
// If several sources of a projected volume write the same file the last one wins, as with
// the kubelet. Two items of the volume with one path are refused by NewMounter, as by the
// API. A file whose name is also a directory of other files is refused: by NewMounter if
// items name both, by SetUp if it depends on the keys.
//
// Other fields are validated as by the API server, since pods may come from elsewhere. An
// audience of a token is limited further: at most 4096 bytes of UTF-8 without control
// characters.
//
// A container's limit is its own, or else its pod's, or else the node's allocatable
// resources. Its request is its own, or else its own limit, or else 0.
//
// # Mounts in a volume
//
// A container may mount another volume inside one of these, such as an emptyDir at
// /etc/app/cache with a ConfigMap at /etc/app. The container runtime cannot create the
// mount point, as the volume is read-only for it, so SetUp creates it: a directory of mode
// 0755, as the kubelet does, or an empty file if the pod mounts a file there (the subPath of
// a ConfigMap's key, a hostPath of a file type). The mount point and the container's mount
// on it survive updates of the files. A file of the volume with the name of a mount point
// is not visible there. A mount of a part of a volume (subPath) gets no mount points in it.
//
// # Owners
//
// With MounterArgs.FsGroup all files belong to that group and are readable to it before
// they become visible. Tokens, trust bundles and certificates are readable to FsUser and
// the group alone, if either is given. Other files belong to the process's user.
//
// # Secrets
//
// All volumes but ConfigMaps have a tmpfs of their own, so their files are not written to a
// disk. They are not swapped either, where the kernel supports that: since Linux 6.4, in
// the initial user namespace (see podvolume.Tmpfs). Elsewhere a node that swaps may write them to
// its swap device, which should be encrypted. A volume that is set up keeps its tmpfs. No
// error contains a byte of a file, and printing a plugin, mounter or [MapGetter] shows none.
// The note on disk for a restart holds the source as the pod has it: names and paths.
//
// # Volumes of a kubelet
//
// SetUp accepts a volume that a kubelet has set up, and updates it from then on: the same
// files are not written again, and the tmpfs stays, with nosuid and nodev added (see
// util/podvolume). TearDown also removes the kubelet's note of the volume.
//
// # Read-only
//
// GetAttributes returns ReadOnly: the container runtime mounts these volumes read-only. A
// container that writes to one in spite of that harms no other volume.
package content
