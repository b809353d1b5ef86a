// Package protect keeps claims and volumes in use from their end, and creates the claims of ephemeral
// volumes: the work of three controllers of kube-controller-manager
// (persistentvolumeclaim-protection-controller, persistentvolume-protection-controller and
// ephemeral-volume-controller) in one [Controller], which shares its caches:
//
//	controller, err := protect.New(protect.Config{Cluster: kubeclient.New(clientset)})
//	err = controller.Run(ctx)
//
// # Claims
//
// A claim that lives receives [ClaimFinalizer] if it has none. The finalizer of a claim in deletion is
// removed once no pod keeps the claim. A pod with a node keeps
//
//   - the claims that it names, until the pod is deleted, also after its containers have ended;
//   - the claims of its ephemeral volumes that it owns, until the node has shut it down: a finalizer of
//     the pod may wait for the end of such a claim.
//
// A pod without a node keeps no claim: nodes start no pod with a claim in deletion. The pods in the
// cache are no proof. Before the removal the controller lists the pods of the namespace from the API
// server, in a list that begins after the deletion of the claim; claims that wait at the same time share
// the list. The removal names the UID of the claim, so that it never concerns another claim of the name.
//
// With [Config].ReportUnused, bound claims have the condition [UnusedCondition]. For it, unfinished pods
// without a node count, too.
//
// # Volumes
//
// A volume that lives receives [VolumeFinalizer] if it has none. The finalizer of a volume in deletion is
// removed once the volume is not Bound, and no claim keeps it: the claim whose UID the volume refers to is
// gone or names another volume. The claim is read from the API server unless the binder has released the
// volume, and the removal names the version of the volume: a binder between its two writes is never
// overtaken.
//
// # Ephemeral volumes
//
// The claim of an ephemeral volume of a pod is named POD-VOLUME, is owned by the pod, and has the labels,
// the annotations and the spec of the volume's template. A claim that is deleted while its pod lives is
// created again after its end. A claim of the name that the pod does not own is never used: the pod has an
// event FailedBinding, and later volumes of the pod have to wait for it.
//
// # Calls to the API server
//
//   - A patch for a missing finalizer.
//   - A patch for the end of a claim, and a list of the pods of its namespace for all that wait.
//   - A patch for the end of a volume, and a read of its claim if the binder has not released it.
//   - A creation for each claim of an ephemeral volume.
//   - After a list with a pod that the cache lacks: another list after [Config].Recheck.
//
// All else, as the protection of a claim whose pods are in the cache, costs no call. An idle controller
// makes no calls but watches.
//
// The Controller requires these rights: get, list, watch, create and patch of persistentvolumeclaims; get,
// list, watch and patch of persistentvolumes; list and watch of pods; and with ReportUnused patch of
// persistentvolumeclaims/status. An owner reference that blocks the deletion of a pod requires update of
// pods/finalizers where the API server checks such references.
//
// # Differences from kube-controller-manager
//
//   - A volume whose phase is not yet Bound is kept if its claim exists and may be bound to it:
//     kube-controller-manager considers the phase alone, and a volume that is deleted while the binder
//     binds it is lost to its claim.
//   - A pod that the cache never shows, because it came and went while a watch was interrupted, does not
//     keep a claim for ever.
//   - Writes are patches: fields that this program does not know stay.
//   - A pod with a claim of another owner has one event, and is handled again when that claim changes its
//     owner or ends, not after pauses.
//   - The condition Unused is off unless ReportUnused is set, and is also corrected for pods that came and
//     went while no controller ran.
//
// # Words
//
//   - claim, volume: the objects PersistentVolumeClaim and PersistentVolume.
//   - ephemeral volume: a volume of a pod that has a template of a claim.
//   - protect: add the finalizer; release: remove it.
//   - keep: be the reason for which the finalizer stays.
//   - user: a pod of a claim, the claim of a volume.
//   - read: query the API server, not a cache.
package protect
