// Package volume holds the nouns of the Kubernetes volume lifecycle: a volume's
// specification ([Spec]), the plugin that makes it usable on a node ([VolumePlugin]), the
// node's directories ([VolumeHost]) and the lookup of plugins ([VolumePluginMgr]). The words
// are those of k8s.io/kubernetes/pkg/volume; the code links only the Kubernetes API types.
//
// # The contract
//
// A plugin turns a specification and a pod into a [Mounter], and a volume's name and a pod's
// UID into an [Unmounter]. Making them validates the input and changes nothing. SetUp mounts
// the volume at its path. TearDown unmounts it by the state on disk and in the mount table
// alone, so it works after a restart and without the API server. Both are idempotent and
// safe for concurrent use, and return soon after their context ends.
//
// Further interfaces, the abilities ([PersistentVolumePlugin], [AttachableVolumePlugin],
// [BlockVolumePlugin], ...), hold the operations of some plugins. [As] returns an ability of
// a plugin, [FindBySpec] that of a volume's plugin. A missing ability is no error.
//
// Package volumetest holds the contract as tests for plugins.
//
// # Glossary
//
//   - specification, [Spec]: a pod's own volume, or a persistent volume.
//   - plugin: the code for one kind of volume. Ability: an optional interface of a plugin.
//   - host: the directories of a node, in the kubelet's layout.
//   - set up, tear down: mount and unmount a volume for one pod. A volume that is set up is
//     mounted, or its directory is filled, as the specification requires.
//   - attach, detach: connect storage to a node and disconnect it.
//   - device mount: the mount of a volume for all pods of a node; pods get bind mounts of it.
//   - map, unmap: give a pod a volume as a raw block device.
//   - reconstruct: recover a specification from disk and the mount table after a restart.
//   - leftover: a directory of a volume whose specification cannot be reconstructed.
//   - kind of an error: the condition of the volume after it, see below.
//   - target directory: a directory outside of the host's root in which a program serves
//     volumes at paths of its callers.
//
// # Errors
//
// The kind of an error is the condition of the volume after it:
//
//   - transient, wraps [ErrTransient]: nothing has changed, and the same call may
//     succeed later;
//   - uncertain, wraps [ErrUncertain]: something may have changed. Treat the
//     volume as mounted: keep its record, and tear it down before another pod or
//     node gets it;
//   - final, wraps neither: nothing has changed, and the same call fails again.
//
// [KindOf] returns the kind. The error of an ended context counts as
// transient unless it is uncertain. Refused input is a *field.Error of package
// k8s.io/apimachinery/pkg/util/validation/field, which names the field and the
// value, shortened.
//
// Some errors name a cause besides, for the caller to act on:
//
//	ErrInfeasible              final: the storage can never fulfil the request
//	ErrFailedPrecondition      transient: the state of the volume does not permit the call
//	*DanglingAttachError       transient: the volume is attached to another node
//	ErrMaxVolumeCountExceeded  transient: the node has no room for another volume
//	ErrReschedule              final: provision the volume for another node
//	*IgnoredError              final: another provisioner is responsible
//
// # When not to use it
//
//   - To mount a file system at a path, without pods and plugins: package mount.
//   - To write the gRPC services of a CSI driver: csi/driver serves a plugin of
//     this package as a driver.
//   - To provision storage for a cluster: the abilities of a plugin are the
//     operations, and controllers/provision calls them for the claims of an API
//     server. Other packages of the module controllers bind, protect, expand and
//     attach.
package volume
