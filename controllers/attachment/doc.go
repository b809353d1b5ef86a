// Package attachment fulfils VolumeAttachments: it attaches volumes to nodes by an [Attacher], as the sidecar
// external-attacher does for a CSI driver.
//
//	controller, err := attachment.New(attachment.Config{
//		Cluster:  kubeclient.New(clientset),
//		Attacher: driver,
//	})
//	err = controller.Run(ctx)
//
// The attach/detach controller of the control plane creates a VolumeAttachment for a volume that a pod needs
// on a node, waits for its status, and deletes it when the node does not use the volume any more. A Controller
// handles those whose spec.attacher is the name of its driver. Run one Controller for a driver at a time: a
// second one repeats calls of the driver, and removes the finalizer of a PersistentVolume in deletion whose
// VolumeAttachment its late cache does not have.
//
// # An attachment
//
// If the Attacher is a [Checker], the volume is checked first: until the check succeeds, the VolumeAttachment has
// only status.attachError, and ends at once when it is deleted. Then it receives
//
//  1. its [Finalizer], [NodeIDAnnotation] and [VolumeHandleAnnotation],
//  2. the same finalizer on its PersistentVolume, unless another node has the volume,
//  3. the attached volume, by [Attacher].Attach,
//  4. status.attached and status.attachmentMetadata; or status.attachError, and Attach is repeated after a
//     pause that doubles.
//
// When the VolumeAttachment is being deleted, [Attacher].Detach is called until it succeeds; each failure is in
// status.detachError. Then the finalizer goes. The finalizer of a PersistentVolume goes when the volume is
// being deleted and no VolumeAttachment names it.
//
// # Guarantees of the calls
//
//   - No call of Attach has an outcome that is lost: the finalizers and the target are stored before it. A
//     VolumeAttachment with the finalizer is detached even if its status was never attached.
//   - Detach is called for a VolumeAttachment that is being deleted, as the API server and not a cache shows
//     directly before the call; and for one that is not attached, before another target takes the place of the
//     recorded one: the node has another ID, or another volume the name of the PersistentVolume.
//   - Attach is called for a VolumeAttachment and a PersistentVolume that have the finalizer and are not being
//     deleted, as the API server shows in the same turn. A lost volume is attached again also while its
//     PersistentVolume is being deleted.
//   - One call is in progress for a volume on a node, also if two VolumeAttachments name them. Of these, one
//     that ends leaves the volume attached for the other. Calls for a volume on several nodes are concurrent.
//   - An Attach whose outcome is unknown is repeated for its VolumeAttachment: by the same process with the same
//     PersistentVolume, and by the next process with the same node ID and volume handle.
//
// Whether a volume may be attached to two nodes, and whether a node still uses it, is decided by the
// attach/detach controller.
//
// # Drift
//
// If the Attacher is a [Lister], the controller compares the storage with the VolumeAttachments once a minute.
// A volume that is attached by its status and not at the storage is attached again. A volume that is attached
// to a node without a VolumeAttachment is reported and stays: another cluster with the same storage, or a
// backup that is restored later, may have its VolumeAttachment.
//
// # Calls to the API server
//
// To attach a volume costs three patches: of the VolumeAttachment, the PersistentVolume, and the status. On
// further nodes a read of the PersistentVolume takes the place of its patch. A repeated attempt patches the
// status, and reads both objects if it calls Attach. To detach a volume costs a read and a patch of the
// VolumeAttachment; one with finalizers of other programs costs a patch of its status more. An idle controller
// makes no calls but watches, and the one of its Lister.
//
// The Controller requires these rights: get, list, watch and patch of volumeattachments; patch of
// volumeattachments/status; get, list, watch and patch of persistentvolumes; list and watch of csinodes.
//
// # Differences from external-attacher
//
//   - A detach uses the node ID of the attach, not the present one of the CSINode.
//   - A changed node ID, or a PersistentVolume with another handle under the same name, causes a detach of the
//     recorded target before the next attach.
//   - A detach without the PersistentVolume uses the recorded volume handle; it has no secrets then.
//   - A VolumeAttachment that ends without a node ID in its CSINode had no finalizer, and ends at once.
//   - A PersistentVolume receives the finalizer directly before the first Attach, not before the volume and the node
//     are checked.
//   - Attach is repeated with the recorded node ID while the driver is not registered on the node.
//   - A PersistentVolume of another driver is not attached.
//   - A VolumeAttachment of another driver does not keep the finalizer of a PersistentVolume that is being deleted.
//   - Of two VolumeAttachments for a volume on a node, one that ends leaves the volume attached for the other.
//   - Finalizers that a user has removed from an attached volume are restored.
//   - The status of a VolumeAttachment that is detached is written only if finalizers of others keep it.
//   - An attached VolumeAttachment has an attachError only while the Attach of a lost volume fails, also if another
//     program has set status.attached.
//   - A detachError has an errorCode, too.
//   - A failed Attach of a lost volume is repeated after a pause, not with the next list.
//   - With NoPublish the finalizers of an earlier version of the driver are removed.
//   - Volumes that are attached without a VolumeAttachment are reported.
//   - Failures are events of the VolumeAttachment, each text once in a row.
//   - In-tree volumes are passed to the Attacher as they are, and are not translated to CSI volumes.
//
// # Words
//
//   - volume: a PersistentVolume, or the inline volume spec of a VolumeAttachment.
//   - target: the volume handle and the node ID that the driver is called with. Recorded: in the annotations.
//   - guard: to write the finalizer, and with it the target.
//   - lost: of a volume that is attached by the status, and not at the storage.
//   - outcome: whether a call has attached the volume. Open: of an outcome that is unknown.
package attachment
