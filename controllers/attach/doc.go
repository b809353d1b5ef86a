// Package attach attaches the volumes of pods to their nodes and detaches them: the work of the
// attach-detach controller of kube-controller-manager, for CSI volumes by VolumeAttachment objects, and for
// the volumes of any volume.AttachableVolumePlugin.
//
//	controller, err := attach.New(attach.Config{
//		Cluster: kubeclient.New(clientset),
//		Plugins: plugins, // nil: CSI volumes alone
//	})
//	err = controller.Run(ctx)
//
// # Wanted volumes
//
// A volume is wanted on a node by each pod of the node that has not finished, with a claim and a persistent
// volume that are bound to each other, if the driver or plugin attaches the volume. The node has the
// annotation [ManagedAnnotation]; with [KeepTerminatedAnnotation] finished pods count as well. A controller
// changes nothing on other nodes, and their attachments count for the rule below.
//
// An exclusive volume, one without the modes ReadWriteMany and ReadOnlyMany, is attached to one node at a
// time. Pods on another node receive the event FailedAttachVolume, and wait. So do pods whose volume a driver has
// not attached or detached for 2 minutes, fails to detach before the next attach, or that another program
// attaches by a VolumeAttachment of its own.
//
// # An attach and a detach
//
//  1. An exclusive volume, and each persistent volume of a plugin, receives [HolderAnnotation].
//  2. The VolumeAttachment is created, and the driver reports status.attached; or the plugin attaches.
//  3. node.status.volumesAttached names the volume: the node may use it.
//
// The way back, once no pod of the node wants the volume:
//
//  1. node.status.volumesAttached no longer names the volume. The write names the version of the node.
//  2. node.status.volumesInUse does not name the volume in the result of that write, or in a later state. A
//     node uses only a volume that both lists name (package node, and the kubelet).
//  3. The VolumeAttachment is deleted in its version, and ends after the driver has detached; or the plugin
//     detaches. If that fails without an effect, volumesAttached names the volume again.
//  4. The node is removed from the HolderAnnotation of a volume of a plugin.
//
// A node that has not had the condition Ready for [Config].UnhealthyAfter, whose object is missing for that
// time, or that has the taint node.kubernetes.io/out-of-service, counts as dead: step 2 is skipped, after the
// node was read from the API server, and [ForcedDetaches] counts it. A node whose program never reports Ready
// counts as dead as well: its volumes are detached even while they are mounted. The list of a new Node object
// counts from a minute after its first sight, as the object of a living node can be deleted and created again.
//
// # Restarts
//
// State lives in objects. A VolumeAttachment shows where a CSI volume is. A volume of a plugin is uncertain
// after a restart on each node that the HolderAnnotation or volumesAttached names: it is attached again,
// which changes nothing on an attached volume, or detached. After an uncertain error, or a call that has
// lasted longer than [Config].Timeout, a volume is uncertain as well.
//
// # Two controllers
//
// Run one controller. If two run by mistake, an exclusive volume is still attached to one node at a time: an
// attach requires a write to the persistent volume in the version in which no other controller holds it, a
// new holder waits until the calls of the one before have ended (2 minutes, for plugins [Config].Timeout and
// 90 seconds), and it reads the VolumeAttachment of that node from the API server. Clocks must agree within a
// minute. Two controllers can undo each other's work: a volume may be detached from a node that uses it, and
// one of a plugin that is not exclusive may stay attached to a node without pods. volumesAttached may name an
// exclusive volume of a plugin on a second node: a detach that fails in one controller puts back the entry that
// the other one has removed. The entry stays while pods of both nodes want the volume. The rule ends with the
// HolderAnnotation: if the object of an attached volume is deleted, against its finalizers, and created again
// without the annotation, a controller whose caches are late may attach the volume to another node.
//
// # Calls to the API server
//
// For a CSI volume: the creation and the deletion of the VolumeAttachment, and a patch of the persistent volume
// if it is exclusive. For a persistent volume of a plugin: a patch before
// the attach and one after the detach. Changes of volumesAttached of a node that come together are one patch. A
// detached volume that volumesAttached did not name costs a read of the node, and so does a forced detach.
// An idle controller makes no calls but watches.
//
// The Controller requires these rights: list and watch of pods, persistentvolumeclaims, csidrivers and
// csinodes; get, list, watch and patch of persistentvolumes; get, list and watch of nodes, and patch of
// nodes/status; get, list, watch, create and delete of volumeattachments.
//
// # Differences from kube-controller-manager
//
//   - A node counts as dead after six minutes without the condition Ready, whenever the last pod has gone.
//     kube-controller-manager counts from the time at which no pod wants the volume.
//   - A volume whose VolumeAttachment is being deleted is not reported as attached again if the driver
//     fails to detach: the deletion cannot be taken back.
//   - A VolumeAttachment is not created on a node that has as many of the driver as the CSINode object, or
//     the resource attachable-volumes-csi-DRIVER of the node, permits. Pods receive an event, and wait.
//   - An orphan whose name begins with csi- is deleted once its node does not use the volume, or counts as
//     dead.
//   - Plugins are not queried for drift (VolumesAreAttached): a volume that another program has detached
//     is attached again after a restart of the controller.
//   - Volumes of in-tree plugins are not translated to CSI.
//   - Each text of an event is sent once in a row for a pod and a volume.
//
// # Limits
//
// A volume in the spec of a pod has no HolderAnnotation: if the controller ends between the attach and the
// report of the node, and the pod goes, nothing shows the attachment. Persistent volumes with the same handle
// are one volume, but two controllers by mistake do not exclude each other for them. Calls of a plugin for
// one volume that may be on many nodes begin together, and the next ones begin when all have ended.
//
// A node whose volumesAttached names a volume of a plugin counts as one that may have it, also if the list is
// wrong: an exclusive volume then waits, and the event of its pods names the node. If another node has the volume,
// the entry stays while pods of both nodes want it. Once the controller has
// withdrawn the volume, it waits for volumesInUse. The taint node.kubernetes.io/out-of-service and the deletion
// of the Node object free the volume; on a node without [ManagedAnnotation] the deletion alone does.
// kube-controller-manager reads volumesAttached only when it starts.
//
// A foreign VolumeAttachment prevents each further attach of an exclusive volume until another program deletes
// it. A VolumeAttachment that a controller has made for an earlier persistent volume of the same name, with
// another handle, is deleted once its node uses neither volume: a driver may detach the present one.
//
// # Words
//
//   - volume: storage with a unique name. Persistent volume: an object that describes it.
//   - wanted: of a volume on a node where pods use it. Exclusive: of a volume for one node.
//   - report: name a volume in node.status.volumesAttached. Withdraw: remove it there.
//   - in use: of a volume that node.status.volumesInUse names.
//   - holder: the run of a controller that attaches a volume, and the nodes it may be attached to.
//   - open: of a call that may take effect later. Lost: of one without an answer.
//   - orphan: a VolumeAttachment whose persistent volume does not exist.
//   - foreign: of a VolumeAttachment with another name than that for the volume and the node. The controller
//     leaves it alone.
package attach
