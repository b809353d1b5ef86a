// Package node runs the node's volume manager on an API server: a [Source] is the pods of one
// node, with their claims, volumes and content, and a [ClaimStatus] writes the results of
// expansions.
//
//	source, err := node.NewSource(node.Config{Cluster: kubeclient.New(clientset), Node: "node-1"})
//	if err != nil {
//		return err
//	}
//	status, err := node.NewClaimStatus(node.ClaimStatusConfig{Source: source})
//	if err != nil {
//		return err
//	}
//	files := content.Config{
//		Mounter: mounter, ConfigMaps: source, Secrets: source, Tokens: source, TrustBundles: source, Node: source,
//	}
//	plugins, err := volume.NewVolumePluginMgr(ctx, host, content.NewConfigMap(files), content.NewSecret(files))
//	if err != nil {
//		return err
//	}
//	m, err := manager.New(manager.Config{
//		Plugins: plugins, Mounter: mounter, Pods: source, Claims: source,
//		ControllerExpands: true, Expansions: status.Report,
//	})
//	if err != nil {
//		return err
//	}
//	defer source.SubscribeContent(m.MarkRemountRequired)()
//	go source.Run(ctx)
//	go status.Run(ctx)
//	return m.Run(ctx)
//
// The example is a whole agent. Where a controller attaches volumes, an [Attacher] is the node's
// side, see Attaching.
//
// # Which objects are watched
//
// The pods of the node, by the field selector spec.nodeName, and by name each object that the
// volumes of these pods use: their claims, the persistent volumes that the claims name, ConfigMaps
// and Secrets, also those of a persistent volume for its CSI driver on the node; ClusterTrustBundles
// by name, or by signer and labels; and the node itself as long as a volume of the downward API shows
// a resource, the node has a mirror pod, or an [Attacher] of the source runs. An object of several pods is watched once, as long
// as at least one present pod uses it. The memory of a source depends on the pods of its node, not on
// the cluster. Without changes a source calls the API
// server only to renew its watches, and the tokens that are read.
//
// # Permissions
//
// An API server that authorizes the credentials of kubelets (the Node authorizer) permits them to
// get claims and persistent volumes, not to watch them. Give the agent a role of its own:
//
//	pods, persistentvolumeclaims, persistentvolumes, configmaps, secrets   list, watch
//	serviceaccounts/token                                                  create
//	nodes                                     list, watch   for resources in the downward API, and for mirror pods
//	nodes                                     get           for the labels of manager.Config.NodeLabels
//	nodes                                     list, watch   for Source.FollowLabels
//	clustertrustbundles.certificates.k8s.io   list, watch   for volumes with trust bundles
//	nodes                                     get, list, watch for an Attacher
//	nodes/status                              patch         for an Attacher
//	volumeattachments.storage.k8s.io          list, watch   for VolumeAttachments
//	persistentvolumeclaims                    get           for a ClaimStatus
//	persistentvolumeclaims/status             patch         for a ClaimStatus
//	csidrivers.storage.k8s.io                 list, watch   for CSIDrivers
//	nodes                                     get           for a CSINode
//	nodes/status                              patch         for a CSINode
//	csinodes.storage.k8s.io                   get, create, update, delete for a CSINode
//	events                                    create, patch for the recorder of kubeclient
//
// # Pods
//
// A pod keeps its volumes until its containers have ended, see [Config].HasContainers. This
// includes a pod that the API server shows as Succeeded or Failed, as the pod garbage collector
// marks the pods of a lost node, and a pod that the API server no longer has. The source returns a
// finished pod with containers in the phase Running.
//
// # Static pods
//
// A kubelet shows each of its static pods on the API server by a mirror pod, with the UID of the
// static pod in the annotation kubernetes.io/config.mirror. The source returns a copy of the mirror
// pod with this UID, so that static pods keep their volumes when a program takes over from a kubelet.
// HasContainers, ContainersEnded and LocalPods use the UID of the static pod, as the labels of its
// containers do.
//
// Anybody who can delete the mirror pod ends the static pod for a source without HasContainers, while
// its containers run: set HasContainers on a node with static pods, and [Config].StaticPods or LocalPods
// if a mirror pod can have been deleted while no program ran. A static pod whose mirror pod was never
// created needs LocalPods.
//
// The API server accepts a mirror pod from every user who may create pods, with any UID in the
// annotation. The source decides who has the UID:
//   - The pod that is known to have it keeps it until it is deleted and its containers have ended: an
//     ordinary pod with the UID, a pod of LocalPods, a static pod by its record in StaticPods, or the
//     mirror pod that the source has returned.
//   - A new mirror pod of the namespace and name of such a static pod, and any mirror pod with a UID that is
//     not known, has to look like one that a kubelet of this node has created: its controller is the present
//     Node object, by name and UID (KEP 1314). Tenants without a pod on the node do not know the UID; others
//     read it in their tokens. So a node with static pods and tenants needs StaticPods or LocalPods.
//   - If there are two of these when the source begins, or if the Node object cannot be read, the source
//     returns neither. It returns a pod with one unusable volume for the UID, so that a manager sets up no
//     volume of either and tears none down. If one of them is deleted before this is decided, while containers of
//     the UID run, it remains so until they have ended.
//
// Other mirror pods are ignored, with a warning, as are those whose annotation is invalid as the name of a
// directory. A program that starts containers starts none for a mirror pod, unless the static pod is
// its own.
//
// # Outages
//
// A source keeps its last state while the API server does not respond, without a time limit. A read
// waits for the API server only if the object was never read, and only until the first list has
// failed. A volume that needs such an object is not set up, and no volume is torn down for it. The
// source removes a pod only after the API server has reported its deletion, by a watch or by a new
// list after the outage. The first list of pods is consistent, unless [Config].Pods is set: it has
// each pod that an earlier run of the program has seen and that still exists, also if the cache of
// the API server is behind.
//
// # Claims
//
// A source returns claims and volumes as they are. The manager refuses the claim of an ephemeral
// volume that the pod does not own, and a claim whose volume has the UID of another claim in its
// claimRef: the pod receives the event FailedMount, and no volume.
//
// # Expansions
//
// A [ClaimStatus] writes the results of expansions to the status of claims, as the kubelet does: the
// capacity, the entry of storage in allocatedResourceStatuses, and the conditions Resizing,
// FileSystemResizePending, ControllerResizeError and NodeResizeError, all of which end with a
// success. allocatedResources belongs to the controller. The differences to the kubelet:
//
//   - The state NodeResizeInProgress follows a failed attempt, instead of preceding each attempt.
//   - The node grows a volume whose capacity has grown in any state of the claim. In the states of
//     the controller the result waits until the controller has finished.
//   - Without a state, as after a manual increase of the capacity, a success becomes the capacity in
//     the status, and a failure is only an event.
//
// The status never shows a size above the capacity of the volume at the time of the attempt, and
// never a smaller size than before. If the node has nothing to grow (volume.ErrNotSupported) the
// status does not change.
//
// # Trust bundles
//
// An API server without ClusterTrustBundles fails only the volumes with one, also those for which
// the bundle is optional.
//
// # Attaching
//
// On a node with the annotation volumes.kubernetes.io/controller-managed-attach-detach: "true" a
// controller attaches and detaches. An [Attacher] reports the volumes in use and waits for the
// controller:
//
//	attacher, err := node.NewAttacher(node.AttacherConfig{Source: source})
//	if err != nil {
//		return err
//	}
//	config.Attacher, config.ReportFirst = attacher, true
//	m, err := manager.New(config)
//	if err != nil {
//		return err
//	}
//	go source.Run(ctx)
//	go attacher.Run(ctx, m)
//	return m.Run(ctx)
//
// The Attacher shares the source's watch of the Node object, or has a watch of its own without a
// source, and writes node.status.volumesInUse, sorted, when the list changes, by a merge patch of
// this field with the resourceVersion of the replaced state. If another program or a webhook
// replaces the list each time, the pauses between the writes of one list grow to some minutes. A
// volume is named there before it is attached or mounted, and until it is unmounted and the manager
// has given up the attachment. The Attacher uses node.status.volumesAttached only in a state of the
// node that is not older than its own writes, and in which volumesInUse names the volume as well: a
// controller removes a volume from volumesAttached before it reads volumesInUse and detaches, so
// that no volume is detached while it is mounted. [VolumeAttachments] waits for the
// VolumeAttachment objects of CSI volumes, for a plugin, and returns the errors of their drivers. Such
// a plugin is an [AttachmentReleaser]: the Attacher reports the end of each attachment to the plugin,
// which then calls ReleaseAttachment.
//
// While the API server does not respond, volumes stay attached by the last known state, attaches
// wait, and the newest list of volumes in use is written after the outage. After a restart of the
// program the status keeps the volumes that the earlier run reported, until the manager has
// restored its state and has all pods.
//
// The Attacher neither creates the Node object nor sets the annotation: the program that registers
// the node does, and reports the condition Ready. For a controller, a node without that condition is dead
// after some minutes: the controller then detaches volumes that the node uses.
//
// # CSI
//
// Three readers and a writer serve the plugin of module csi, without a dependency on it:
//
//   - a [Source] returns the Secrets of CSI volumes and the tokens of pods: Secrets and Tokens of
//     csi.Config
//   - [VolumeAttachments] waits for attachments: Attachments of csi.Config
//   - [CSIDrivers] returns CSIDriver objects: Objects of csi.Config
//   - a [CSINode] writes registered drivers to the node's CSINode object, and their topology to the
//     labels of the Node object: Node of registration.Config
//
// A volume of a driver with a topology requires these labels, which a new node has only after the registration:
// run [Source.FollowLabels] with SetNodeLabels of the manager.
//
// As the kubelet does, a CSINode writes the entry of each driver with node ID, topology keys and
// allocatable count, the owner reference to the Node object, and the annotation
// csi.volume.kubernetes.io/nodeid. The differences to the kubelet:
//
//   - An entry that differs is removed and added: the kubelet's write of it fails.
//   - Neither an empty CSINode object nor the annotation storage.alpha.kubernetes.io/migrated-plugins
//     is written: no volume of an in-tree plugin is translated. An existing annotation stays.
//   - An annotation of node IDs that is no JSON object is replaced.
//
// # Tokens
//
// A token is bound to its pod, requested by the TokenRequest API, and cached until 80 % of its life,
// or 24 hours, are over, as the kubelet does. If the request for a new token fails, the source
// returns the old one until it expires. The source drops the tokens of a pod that is no longer
// present.
//
// # Secrets
//
// Printing a Source, with any verb or as JSON, shows no Secret and no token.
//
// # Limits
//
// Not implemented: pod certificates, so that package content refuses a volume with one unless
// content.Config has another source of them. A kubelet on the same node writes
// node.status.volumesInUse as well, with its own volumes: an Attacher and a kubelet revert each
// other's lists, so a node has one of them. After a restore of etcd from a backup the resource
// versions go back: restart the program.
// Events are written by package kubeclient: manager.Config.Events is kubeclient.ManagerEvents.
//
// # Glossary
//
//   - source: the supplier of a manager's pods, claims and volumes
//   - static pod: a pod from a file of the node, not from the API server
//   - mirror pod: the object on the API server that shows a static pod
//   - local pod: a pod that the program has started before, and that may have containers
//   - finished pod: a pod of phase Succeeded or Failed
//   - deleted pod: a pod that the API server no longer has
//   - present pod: a pod that the source returns; it keeps its volumes
//   - reference: the name of an object that a volume of a pod uses
//   - user: a pod, or a claim, that references an object
//   - watched object: an object with at least one user
//   - growth: the size that the attempts of this node have given to the volume of a claim
//   - state of a claim: the entry of storage in its allocatedResourceStatuses
//   - volumes in use: the volumes that no controller may detach from the node
//   - open outcome: a write has failed, and may have taken effect or may do so later
package node
