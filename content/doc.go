// Package content is four volume plugins that write files into pods:
//
//	kubernetes.io/configmap      the keys of a ConfigMap
//	kubernetes.io/secret         those of a Secret
//	kubernetes.io/downward-api   what a pod is told of itself
//	kubernetes.io/projected      all of these in one volume, tokens and certificates
//
// They differ in where the bytes come from, and that is for the embedder to say: by the
// small interfaces in [Config], for each of which it has a client, a cache or a file. A
// [MapGetter] has them in memory. No cluster is needed.
//
// # Files
//
// The layout is the kubelet's, see package atomicdir: the files of a volume change all
// at once, and readers see the old ones or the new ones. To bring a volume up to date
// call SetUp again while it is up; files that are as they should be already are not
// written again. For what a pod is told of itself that needs a mounter for the pod as it
// is by then. A volume with tokens or certificates is to be set up again in time for them
// to be renewed, see [TokenGetter].
//
// Items choose keys and name files, Mode and DefaultMode (0644) are their permissions. A
// key that is missing is an error, unless the source is optional; so is a missing
// ConfigMap or Secret. Both are transient, as they may come.
//
// Of sources of a projected volume that write the same file the last one wins, as with
// the kubelet; that two items of it name one path is refused beforehand, as by the API. A
// file that is a directory of other files is refused in any case: beforehand if items
// name both, and by SetUp if it depends on the keys that there are.
//
// Other fields are held to what the API accepts, as pods need not come from there. The
// audience of a token is held to more: at most 4096 bytes of UTF-8 without control
// characters.
//
// A container's limit is its own, or else that of its pod, or else what the node has. Its
// request is its own, or else its own limit, or else 0.
//
// # Owners
//
// With MounterArgs.FsGroup all files are of that group and readable to it, from before
// they can be seen. Tokens, trust bundles and certificates are readable to FsUser and the
// group alone, if either is given. Other files stay the process's own.
//
// # Secrets
//
// All but ConfigMaps live on a tmpfs that nobody else has, so nothing of them is written
// to a disk. Nor is it by swapping, where the kernel can promise that: since Linux 6.4, in
// the initial user namespace (see util.Tmpfs). Elsewhere it may be, if the node swaps: a
// disk to swap to is then to be encrypted. A volume that is up stays as it is. No error, and nothing that a plugin, mounter or
// [MapGetter] looks like when it is printed, holds a byte of a file. What is noted on
// disk for after a restart is the source as the pod has it: names and paths.
//
// # Read-only
//
// A container is to see these volumes read-only, and GetAttributes says so: it is for who
// shows them to it to see to. They are safe to write to all the same, if somebody can.
package content
