// Package sidecar runs the companions of a CSI driver in one process: the work of Kubernetes' programs
// external-provisioner, external-attacher and external-resizer, on one set of caches, and with it registration
// and liveness.
//
//	err := sidecar.Run(ctx, sidecar.Config{Endpoint: "/csi/csi.sock", Cluster: kubeclient.New(clientset)})
//
// Run works beside the driver, or inside of its process with Config.Conn. It reads the capabilities of the
// driver once, and runs those companions that they allow. A program that runs its controllers itself builds the
// parts: [Open] returns a [Driver], and [NewProvisioner], [NewAttacher], [NewExpander] and [NewModifier] return
// adapters for packages provision, attachment, expand and modify. A [Prober] answers the liveness probes of a kubelet.
//
// # Leader election
//
// With replicas, one Lease decides which of them runs the companions:
//
//	leadership, err := service.NewLeadership(clientset.CoordinationV1(), namespace, "sidecar-disk.example.com")
//	err = sidecar.Run(ctx, sidecar.Config{Endpoint: "/csi/csi.sock", Cluster: kubeclient.New(clientset), Leader: leadership})
//
// A replica without the Lease calls neither the driver nor the API server, apart from the election. The registration and a
// Prober work on each replica: they belong to the driver beside it.
//
// # New volumes
//
// CreateVolume has the name pvc-UID, the requested size, a volume capability for each access mode of the claim,
// the parameters of the class without those below, the topology, the volume to copy, the parameters of the
// attributes class, and the Secret. These parameters of a class are not passed to the driver:
//
//	csi.storage.k8s.io/fstype                             the file system
//	csi.storage.k8s.io/provisioner-secret-name            the Secret of CreateVolume and DeleteVolume,
//	csi.storage.k8s.io/provisioner-secret-namespace       likewise for controller-publish, controller-expand,
//	                                                      controller-modify, node-stage, node-publish and
//	                                                      node-expand
//	csi.storage.k8s.io/secret-name, secret-namespace      the Secret of those of these calls without one of their own
//
// The volume names the Secrets of DeleteVolume and ControllerModifyVolume in annotations, and the others in its source.
// The right to write PersistentVolumes includes the choice of these Secrets. Without the annotations,
// ControllerModifyVolume receives the Secret of ControllerExpandVolume.
//
// Names of Secrets may contain ${pvc.name}, ${pvc.namespace}, ${pv.name} and ${pvc.annotations['KEY']}, their
// namespaces ${pvc.namespace} and ${pv.name}. Claims and annotations are the input of tenants: a value is
// expanded once, and each result must be the name of an object. Another parameter that begins with
// csi.storage.k8s.io/ is an error.
//
// With topologies (VOLUME_ACCESSIBILITY_CONSTRAINTS), the requirement of a claim with a selected node prefers the
// topology of the node, by the keys of the driver in its CSINode. Without a selected node it has the allowed
// topologies of the class, or those of all nodes with the driver. The answer becomes the node affinity of the
// volume.
//
// A claim may copy the volume of another claim of its namespace (CLONE_VOLUME), if the volume is bound to that
// claim, is one of the driver, and is not larger than the request. Claims that a volume populator fills are left
// alone.
//
// # Outcomes
//
// The code of a failed call decides about the next step:
//
//   - CreateVolume: InvalidArgument and OutOfRange are infeasible, and retried rarely. After ResourceExhausted
//     the scheduler selects another node, if one was selected by topology. After Canceled, DeadlineExceeded,
//     Unavailable and Aborted, and otherwise ResourceExhausted, the volume may exist: the call is repeated with
//     equal arguments until another answer, also if the claim is deleted. AlreadyExists leaves open whether the
//     volume is one of an earlier call. After any other code no volume exists.
//   - An answer that cannot be read, as one above 4 MiB, leaves the outcome of its call open. Its code is Internal.
//   - The repeated call has the arguments of the first one, also if the cluster has changed since; the Secret is
//     read again. A later run of the program does not know these arguments: it takes those of the present nodes,
//     class and source, without the checks that only protect a new volume, and a driver that compares more than
//     the specification requires may answer AlreadyExists. A call for a volume that may exist is made without a
//     Secret that was deleted, and if a check refuses the claim; the volume is then deleted again.
//   - A volume that is too small, that is empty in place of a copy, or whose description has more than 256 KiB is
//     deleted again, unless its object is stored or its claim was bound.
//   - ControllerExpandVolume: InvalidArgument, OutOfRange and NotFound are infeasible; FailedPrecondition is a
//     volume in use. ControllerModifyVolume: InvalidArgument is infeasible.
//   - ControllerUnpublishVolume: NotFound is an error, as the specification does not permit to assume that the
//     volume is detached. A call without a node ID, which would detach from all nodes, is never made.
//   - DeleteVolume and ControllerUnpublishVolume are called without secrets if their Secret was deleted.
//   - One call for a volume is in flight at a time. The calls for one volume wait in at most half of the workers: further
//     ones fail at once, and are retried.
//
// Errors and events have the texts of the driver, shortened, in one line, and without the values of the Secrets
// of the call.
//
// # Storage capacity
//
// With [CapacityConfig], a CSIStorageCapacity object for each class and each topology of the nodes has the answer
// of GetCapacity. New classes and topologies are queried at once, and each other one once in each interval. An
// object is written if its numbers change or if it lacks the owner, and deleted with its class or topology.
//
// # Rights
//
// Run requires the rights of the controllers that it runs (packages provision, attachment, expand and modify), and:
//
//   - get of the secrets that classes and volumes name, and of storageclasses,
//   - get, list and watch of csinodes, and list and watch of nodes, with topologies,
//   - get, list, watch, create, update and delete of csistoragecapacities in the namespace of their objects.
//
// # Calls to the API server
//
// Beside the calls of the controllers: a read of each Secret of a call, for ControllerPublishVolume one more before the
// finalizer; for a copy a read of the source claim and of its volume; for the deletion of a volume without the
// annotations of its Secret a read of its class; with a selected node without a driver in the cache, a read of its
// CSINode; one write for each change of a storage capacity.
//
// # Differences from the external sidecars
//
//   - Volumes of in-tree plugins are not translated for the driver (CSI migration), and snapshots are refused
//     with a [SourceError]; a claim whose data source is in another namespace is refused.
//   - The driver's volume context is stored as it is, without storage.kubernetes.io/csiProvisionerIdentity.
//   - The older parameters csiProvisionerSecretName and the like are not interpreted.
//   - Without a selected node, the topologies of all nodes are required, also if the driver has different keys on
//     them.
//   - The source of a copy has no finalizer during the call: a driver must refuse to delete a volume that it
//     copies.
//   - The Secret of ControllerPublishVolume is read before the VolumeAttachment has its finalizer, and again before the
//     call. More differences from external-attacher are in package attachment.
//   - A deleted Secret does not prevent ControllerUnpublishVolume: the call has none then.
//   - Storage capacities are not queried after a volume is created or deleted, but in the next interval.
//   - The program does not exit when the driver closes its socket: the next call connects again.
//
// # Words
//
//   - companion: a controller that calls the driver for the objects of a cluster.
//   - driver, controller service, node service: as in the specification.
//   - use: a call, or a group of calls, with a Secret of its own.
//   - topology, segment: as in the specification. Term: the segments of one topology, sorted.
//   - item: a class with a topology, for which a storage capacity exists.
package sidecar
