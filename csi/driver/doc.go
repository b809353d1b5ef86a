// Package driver serves a volume plugin as a driver of the Container Storage Interface, CSI v1: every
// orchestrator that calls such drivers can use the plugin.
//
//	listener, err := driver.Listen(ctx, "/csi/csi.sock")
//	...
//	err = driver.Serve(ctx, listener, driver.Config{Name: "nfs.csi.example.com", Version: "1.0",
//		NodeID: node, Plugin: nfs.NewProvisioning(...), Host: host})
//
// The driver declares those capabilities that the abilities of the plugin give:
//
//	volume.ProvisionableVolumePlugin and   CREATE_DELETE_VOLUME, LIST_VOLUMES
//	volume.DeletableVolumePlugin
//	volume.AttachableVolumePlugin          PUBLISH_UNPUBLISH_VOLUME, LIST_VOLUMES_PUBLISHED_NODES
//	volume.ExpandableVolumePlugin          EXPAND_VOLUME of the controller
//	volume.DeviceMountableVolumePlugin,    STAGE_UNSTAGE_VOLUME
//	volume.BlockVolumePlugin
//	volume.NodeExpandableVolumePlugin      EXPAND_VOLUME of the node
//	all plugins                            GET_VOLUME_STATS, VOLUME_CONDITION, SINGLE_NODE_MULTI_WRITER
//	Config.MountGroup                      VOLUME_MOUNT_GROUP
//	Config.Capacity                        GET_CAPACITY
//	Config.Topology                        VOLUME_ACCESSIBILITY_CONSTRAINTS
//
// Raw devices need volume.BlockVolumePlugin and Config.Mounter. Snapshots, clones, ephemeral volumes and
// changes of parameters are not served. The driver reads no secrets.
//
// # Calls
//
// All calls are idempotent as the specification requires: the same CreateVolume returns the same volume,
// a repeated NodePublishVolume is OK, and so is NodeUnpublishVolume of a path that is not published. A
// call for a volume with another call in flight is ABORTED; if the caller has given up that call, the new
// one waits for its end for a second. A call for whose file system, server or disk the kernel waits can
// last longer than its deadline; the volume is ABORTED until then, and other volumes do not wait.
//
// The access modes SINGLE_NODE_WRITER, SINGLE_NODE_READER_ONLY and SINGLE_NODE_SINGLE_WRITER allow one
// target path on a node; others any number of paths. Modes for readers are mounted read-only.
//
// NodeStageVolume mounts a disk in the directory of the plugin, as volume.DeviceMounter does, and
// records the staging path, which stays empty.
//
// NodeGetVolumeStats has a volume condition: that of the plugin's volume.Metrics, or else normal. A volume that
// is published and not mounted any more, or whose file system does not work, is abnormal, without numbers.
// Versions of the specification without the condition ignore it.
//
// # IDs and contexts
//
// The ID of a created volume has at most 128 bytes: a version, a digest of the source of the volume, and
// the name of the persistent volume. The volume context has the source: [VersionKey], [SourceKey]. Calls
// on nodes need the context alone, and check it against the ID. A volume without CreateVolume has any
// other ID and a context that an administrator writes:
//
//	volumeAttributes:
//	  volumekit.io/version: "1"
//	  volumekit.io/source: '{"nfs":{"server":"files.example.com","path":"/shared"}}'
//
// IDs, contexts, names, paths and capabilities are untrusted: each is limited and checked before it is
// used. The author of a context chooses the source of the volume, as in a persistent volume: the
// CSIDriver object must not have the lifecycle mode Ephemeral, in which pods have contexts of their own.
//
// # Records
//
// The driver records created and attached volumes in Config.ControllerDir, and staged and published ones
// below the root of Config.Host, each durably before the plugin changes anything and until that is
// undone. Any number of restarts, and of kills, lose nothing. An unreadable record costs its volume alone.
// After a start of the system, recorded mounts do not exist: such a record keeps no volume from another target
// path, no other volume from its target path, and none from DeleteVolume.
//
// # Errors
//
// The code of an error is the condition of the volume after the call:
//
//	INVALID_ARGUMENT     a *field.Error, a *mount.InputError, volume.ErrNotSupported, volume.ErrInfeasible
//	OUT_OF_RANGE         volume.ErrInfeasible of a size
//	RESOURCE_EXHAUSTED   volume.ErrReschedule, volume.ErrMaxVolumeCountExceeded, no topology fits
//	NOT_FOUND            an unknown volume or node, volume.ErrNotMounted
//	ALREADY_EXISTS       the volume exists, or is attached, staged or published, with other arguments
//	FAILED_PRECONDITION  in use, not staged, volume.ErrFailedPrecondition, *volume.DanglingAttachError
//	UNAVAILABLE          volume.Transient: nothing has changed, the same call may succeed later
//	ABORTED              volume.Uncertain, or another call for the volume is in flight
//	DEADLINE_EXCEEDED    the context of the call has ended, in a state that is not final
//	CANCELLED
//	UNIMPLEMENTED        a call that the driver does not declare
//	INTERNAL             other final errors
//
// Texts of errors are one line, at most 1 KiB, and contain neither secrets of the request nor values of
// mount options whose names look secret, such as password.
//
// # Glossary
//
//   - driver: the services for one plugin. Caller: the orchestrator, such as a kubelet.
//   - controller service: creates, attaches and expands volumes. Node service: mounts them.
//   - created volume: one of CreateVolume. Static volume: one that an administrator describes.
//   - ID: the caller's name of a volume. Name: the name of its persistent volume for the plugin.
//   - source: the PersistentVolumeSource in the volume context, by which the plugin finds the storage.
//   - usage: a checked volume capability.
//   - stage, publish: mount once for the node, and at a target path for a pod.
//   - target path: the path of a publication, which the caller chooses.
//   - record: the file about a volume. Store: a directory of records.
//   - segment: a key and value of a topology. Topology: the segments of a node.
package driver
