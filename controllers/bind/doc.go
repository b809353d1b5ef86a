// Package bind binds claims to volumes, and reclaims volumes whose claims are gone: it is the binder of a
// control plane, and can stand in for the persistentvolume-binder-controller of kube-controller-manager.
//
//	controller, err := bind.New(bind.Config{Cluster: kubeclient.New(clientset), Plugins: plugins})
//	err = controller.Run(ctx)
//
// Names of annotations, finalizers, events and metrics are those of Kubernetes, so that a cluster may
// change its binder. Before a change away from this one, note: claims that a plugin of this program has
// provisioned for may keep the finalizer provision.ClaimFinalizer, which no other program removes (see
// package provision); static volumes with the policy Delete of a plugin keep [PluginFinalizer], which
// kube-controller-manager does not remove once their policy is Retain; and volumes may have
// [RecyclingAnnotation], which kube-controller-manager ignores. Run one binder at a time, behind a leader
// election. Two binders by mistake bind no object twice.
//
// Plugins provision and delete by package provision: this is the only controller that imports another one.
//
// # Which volume
//
// A claim that names a volume receives this one. Otherwise it receives a volume that refers to the claim,
// or the free volume with the fewest access modes of those that fit, and of these the smallest one: with
// the claim's class, attributes class, volume mode, access modes, size and labels (see util.MatchVolume).
// An index finds it in logarithmic time, and reserves it in memory: workers in parallel never choose one
// volume twice. A claim of a class that waits for the first consumer receives only a volume that the
// scheduler has reserved, a provisioner has made, or a user has named in the claim or made to refer to it.
//
// Sizes count as in kube-controller-manager: a volume that refers to a claim
// and is too small is not bound, without an event; a claim that names a volume which is too small has an
// event VolumeMismatch; a claim and a volume that name each other are bound, whatever their sizes.
//
// If no volume fits, a claim without a class receives the default class, also one that becomes the default
// later, and the provisioner of the class is requested by annotations. A plugin of Config.Plugins with the
// name of the provisioner provisions the volume, by package provision.
//
// # Fewest writes
//
// A pair costs these writes, and no others of the binder:
//
//  1. the reference of the volume (spec.claimRef), with the version of the volume: a changed volume
//     refuses it;
//  2. the name in the claim (spec.volumeName) and its annotations, with the version of the claim: a claim
//     that names another volume, or is being deleted meanwhile, refuses it;
//  3. the phase Bound of the volume;
//  4. the phase Bound of the claim, with capacity, access modes and attributes class.
//
// A volume that refers to the claim by its UID needs no first write. A new volume that finds no claim costs
// one for the phase Available. While claims are being bound, that one waits for up to a minute, as a
// volume that is bound meanwhile does not need it. The other transitions cost:
//
//   - Released: one. The API server is read first: no claim may have the UID of the reference.
//   - Unbound, as the claim is bound to another volume: one, and one for Available if needed.
//   - Recycled: one for the mark, one for each minute of the call, one for the reference and the mark, and
//     one for Available. A failed recycling: one for Failed, and one for the mark.
//   - With plugins, package provision adds its finalizer to the claims that a plugin provisions for, and
//     removes it, and adds PluginFinalizer to bound static volumes with the policy Delete of a plugin.
//   - The default class, a request of a provisioner, Lost, and Pending after Lost: one each. A Lost claim
//     that is bound again becomes Pending first.
//
// Writes are patches, and keep fields that this program does not know. An idle controller makes no calls
// but watches.
//
// A claim that is to become bound to a volume which another writer has made Bound costs a list of all claims, and so
// does a Bound volume whose reference a user has removed: a claim that the cache does not show as bound may have the
// volume. Such claims share the lists.
//
// # No loss
//
// Storage is deleted for Released volumes alone, and recycled for Released and Failed ones, after the API
// server, and not a cache, has confirmed that no claim has the UID of the reference, and shows no pod on a
// node that uses the claim, no attachment and, for volumes that are attached, no node with the volume.
// Package provision states the rules for deletion.
//
// A volume has the annotation [RecyclingAnnotation] from before the call of a recycler until the volume is
// recycled, or the call has failed for certain. Until then it receives no claim and is not Available, also if
// a user removes or replaces its reference, the program ends, or the outcome of the call is uncertain. A
// removed reference is written again, and the volume is recycled once more. A user who replaces the
// reference, or makes the policy Retain, has an event and decides: remove the annotation when no recycler
// runs. The binder that recycles renews the annotation each minute, and ends its call if it cannot; another
// binder continues after five minutes without a renewal.
//
// # Differences from kube-controller-manager
//
//   - A volume that a claim was to receive, and never received as the claim was deleted, becomes Available
//     again. kube-controller-manager releases it, and deletes its storage if the policy is Delete.
//   - A provisioned volume whose claim was bound to another volume is released when the claim is gone, and
//     not at once: no storage of a living claim is deleted.
//   - A claim in deletion, and a volume in deletion, are not bound anew. A volume in deletion that refers to
//     a claim by its UID and was not bound to it loses its reference, which would keep the volume and the
//     claim for ever; one that was provisioned for the claim, with the policy Delete, is bound, so that its
//     storage is deleted after the claim.
//   - A volume is not bound while another claim that has been bound to it is not Lost, as after an edit of
//     its reference: the other claim becomes Lost first. A Lost claim becomes Pending before it is bound
//     again.
//   - A volume without a reference that a claim has been bound to is reserved for this claim again, also for
//     a Lost one, and is not Available: the volume has the data of the claim.
//   - A volume whose reference has lost its UID, as when a manifest or a backup is applied, is reserved again for the
//     claim that it names, if that claim was bound to it: nothing is lost. kube-controller-manager makes the claim Lost.
//   - Names of provisioners that were replaced by CSI drivers are not translated: the class names the driver.
//   - A volume that is being recycled receives no claim, whatever happens to its reference, see above.
//   - Storage that a plugin fails to delete is an event VolumeFailedDelete, and the volume stays Released.
//   - A claim that waits for its first consumer has the event WaitForPodScheduled only with Config.Pods. The event
//     names at most ten pods.
//   - Events are sent once, not with each resync.
//   - A request that the API server denies, for a missing right or by admission, is the event RequestDenied of its claim
//     or volume.
//   - Static volumes with the policy Delete of a plugin of this program have the PluginFinalizer, too.
//
// # Rights
//
// get, list, watch and patch of persistentvolumeclaims, persistentvolumes and their status; get, list and
// watch of storageclasses; with plugins also create and delete of persistentvolumes, list of pods, nodes and
// volumeattachments, get of nodes and of volumeattributesclasses. Config.Pods requires list and watch of pods, and
// [PodClient] the rights that it names.
//
// # Words
//
//   - claim, volume: the objects PersistentVolumeClaim and PersistentVolume.
//   - reference: the claim in spec.claimRef of a volume. With the UID of the claim it is fixed.
//   - reserve: to write the reference; in the index: to choose a volume, in memory.
//   - pair: a claim and a volume that are bound to each other.
//   - named: a claim with a name in spec.volumeName. A user's name comes before the binder's.
//   - consumer: a pod that uses a claim.
//   - rival: another claim that has been bound to a volume, and is not Lost. While the volume has no
//     reference, a Lost claim is a rival, too.
//   - free: without a reference, and new or Available.
//   - waiting: a claim that no free volume fits. A volume that becomes free wakes one that it fits.
//   - view: all that a decision depends on. A turn is the work of a worker for one object.
package bind
