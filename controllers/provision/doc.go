// Package provision provisions volumes for claims: a [Controller] calls a [Provisioner] for each
// claim of a class, stores the volume that the Provisioner describes, and deletes the storage of
// released volumes. An author writes two methods:
//
//	controller, err := provision.New(provision.Config{
//		Name: "example.com/nfs", Provisioner: p, Cluster: kubeclient.New(clientset),
//	})
//	err = controller.Run(ctx)
//
// [FromPlugin] returns the Provisioner of a volume plugin. Names of annotations, finalizers, events
// and metrics are those of Kubernetes' external provisioners, so that volumes of other provisioners
// of the same name are continued.
//
// # Which claims
//
// The binder requests the provisioner by an annotation of the claim ([ProvisionerAnnotation]). The
// controller provisions if the provisioner of the class has one of its names, the claim names no
// volume, [Config].Qualifier agrees and, for a class that waits for the first consumer, a node is
// selected. A claim without a class receives the default class first, in the write that adds the
// finalizer. A node that does not exist, or that the class does not allow, is removed from the claim;
// the scheduler then selects another one.
//
// Where each node has a provisioner of its own, Config.Qualifier and Config.DeletionGuard divide the claims and volumes,
// and one controller by [ForGoneNodes] serves the nodes that do not exist any more.
//
// Provision is not called for a claim without a size, with a size of 0 or less or of more than an
// int64, and with an attributes class whose name is none. The event of such a claim, as that of each
// failure, names the field and the beginning of its value.
//
// These checks, and those of the node, come before the finalizer. After a restart, a claim with the
// finalizer may have storage: Provision is called for it, and if the checks refuse the request, the
// storage is deleted and no volume is stored. So the checks also hold for a finalizer that a
// tenant writes. A claim that was bound may have data: if the checks refuse it, its storage and its
// finalizer stay.
//
// # No leak
//
// Storage leaks if no object leads to it. Before the first call of Provision the controller adds
// [ClaimFinalizer] to the claim; it removes the finalizer after the volume's object is stored, or
// when no storage exists. So each later run finds the claim or the volume, and repeats the call for
// the same name:
//
//   - A claim is deleted during its Provision: the call is repeated until its outcome is certain, the
//     volume is stored, the binder releases it, and its storage is deleted by its policy.
//   - The API server does not answer: the object is stored later, however long this takes.
//   - The API server refuses the object, the binder would not bind it (another size, mode or node), or the
//     Provisioner refuses the storage ([RefusalError]): the storage is deleted, and an event of the claim names
//     the reason. Storage of a stored object, and of a claim that was bound, stays.
//   - The API server stores the object, and the answer is lost: the controller finds the object.
//   - Two controllers run by mistake: their calls for one claim have the same name, and the API server
//     refuses the second object. A controller that finds the released object of the other one after the
//     end of the claim calls again after the end of the object, in case its late call has created the
//     storage once more. The next object has the policy of the first one.
//   - Two controllers of one name have a storage system each, such as two NFS servers, and both provision for one
//     claim: the one that finds the other's object stored deletes its own storage. Both volumes must have a
//     [volume.StorageAnnotation]. The storage leaks if the process ends before it is deleted. If a call stays
//     uncertain, it is repeated until it is certain, also after the claim and the volume have ended.
//   - One of two controllers alone finds the selected node missing, or its object alone is refused: it sets
//     [DiscardAnnotation] on the claim, with the finalizer, before it confirms that no object exists and calls
//     Delete, and again afterwards. The other controller stores no object while it sees the first mark. If it has
//     stored one before it sees a mark, also after a restart, it calls Provision once more, after the second mark,
//     and then removes the mark and the finalizer. So the volume has storage, and receives it again if it was
//     deleted; data that a pod writes between the creation of the object and the end of that call of Delete is
//     deleted. A controller that ends during its discard delays the claim by twice Config.Timeout, at least by
//     10 minutes.
//   - A tenant writes DiscardAnnotation on a claim whose volume is stored: the controller ignores it without the
//     finalizer. With the finalizer it calls Provision once more, and never Delete.
//
// The controller never removes the finalizer from a claim whose storage is uncertain. If the storage
// or the class is gone for good, remove it by hand.
//
// In a burst of claims the controller stores the volumes first, and removes the finalizers afterwards: a
// claim, also a bound one, keeps its finalizer until no other claim waits for a worker. After a minute,
// and once the claim is being deleted, the finalizer goes with the next turn of the claim. A controller that
// stops meanwhile leaves the finalizers to the next run. Before you remove the controller for good, wait
// until no claim has its finalizer: the deletion of a claim with the finalizer does not end without a
// controller.
//
// # No loss
//
// Storage is deleted if the volume is owned by the provisioner, is Released with the policy Delete,
// and Config.DeletionGuard agrees. Each of these conditions is read again from the API server, not
// from a cache, before each call of Delete: the volume; that no claim with the UID of its reference
// exists; that no pod on a node uses the claim; and, for volumes that can be attached, that no
// VolumeAttachment and no node names the volume. The volume is read directly before the call; the
// others are read before the call waits for Config.Calls, and again if it has waited for more than a
// minute. A volume whose reference has no UID is reserved, and kept.
//
// [VolumeFinalizer] keeps the object of a volume that a user deletes until the storage is deleted. The
// controller adds it to bound volumes of the policy Delete that lack it, also to static ones of the
// CSI driver of its name, and removes it when the policy becomes Retain or Recycle. A provisioned volume that
// is deleted after a user has removed its reference stays in deletion with the finalizer, as its storage may have
// data: delete the storage and remove the finalizer by hand, or make the policy Retain. A static one goes once it is
// Available, and its storage stays.
//
// # Events and metrics
//
// Events of claims: Provisioning, ProvisioningSucceeded, ProvisioningFailed. The event of a success shows
// the [volume.ProvisioningNoteAnnotation] that the Provisioner has set. Events of volumes:
// VolumeDelete while the volume is in use, VolumeFailedDelete. Events of both: RequestDenied, if the API server
// denies a request of the controller for a missing right or by admission. A volume whose object admission denies is
// refused: its storage is deleted, and its claim can go; a missing right is awaited. The metrics are [ProvisionTotal] and
// the constants beside it.
//
// # Pauses
//
// A failed claim or volume is retried after a pause that doubles, and at once when the claim's node,
// attributes class, labels or annotations change, its class, or the volume's phase or policy.
// Annotations of Kubernetes itself, as pv.kubernetes.io/bind-completed, end no pause. An infeasible
// request is retried every five minutes. Config.Calls limits the calls of the Provisioner at the same
// time; while most calls fail, the limit halves with each round of calls, and doubles afterwards.
//
// # Calls to the API server
//
// The calls for a claim:
//
//   - The creation of its volume.
//   - Two patches, which add the finalizer before the first Provision and remove it at the end. With
//     UnguardedClaims: none.
//   - With storage that is discarded: two patches, which mark the claim and add the finalizer, and a read of
//     the volume.
//   - A read of its selected node and of its attributes class, if the class of the claim waits for a
//     node or the claim names an attributes class.
//
// The calls for a deletion:
//
//   - A read of the claim. Eight and more deletions at the same time share a list of the claims of the
//     namespace, unless it has more than 500.
//   - A list of the pods of the namespace, which all deletions share that wait for it.
//   - A read of the volume, its deletion, and the patch that removes the finalizer.
//
// An idle controller makes no calls but watches. At the same time at most Config.Calls and 8 claims cost
// calls, and as many volumes; at least 72 volumes, as those that wait for a list do not load the API
// server.
//
// The Controller requires these rights: get, list, watch and patch of persistentvolumeclaims; get,
// list, watch, create, patch and delete of persistentvolumes; list and watch of storageclasses; list of pods; get
// of nodes if classes wait for a consumer, and of volumeattributesclasses if claims name them; and for
// volumes that can be attached, list of nodes and volumeattachments.
//
// # Words
//
//   - claim, volume: the objects PersistentVolumeClaim and PersistentVolume.
//   - storage: what Provision creates and Delete deletes. It is possible from the first call of
//     Provision until a success, or a final error, makes it certain.
//   - guard: the finalizer on a claim or a volume; to guard: to add it.
//   - describe: the object of a volume before it is stored.
//   - discard: delete storage that no object can describe.
//   - mark: the annotation of a claim whose storage a controller discards or has discarded.
//   - reclaim: delete the storage of a released volume.
//   - attempt: the memory of the controller for one object. A crash loses it, and nothing else.
//   - inputs: the part of an object, and of its class, whose change ends a pause.
package provision
