// Controlplane runs the controllers of module controllers for a cluster: it stands in for controllers of
// kube-controller-manager, under their names.
//
//	kubectl apply -f rbac.yaml -f deployment.yaml
//
//	persistentvolumeclaim-protection-controller   package protect
//	persistentvolume-protection-controller        package protect
//	ephemeral-volume-controller                   package protect
//	persistentvolume-binder-controller            package bind, which recycles by pods
//	persistentvolume-expander-controller          package expand, without plugins
//	persistentvolume-attach-detach-controller     package attach, for CSI volumes
//
// -controllers selects some of them, as the flag of kube-controller-manager does: "*" all, NAME one of
// them, -NAME all but this one. The older names pvc-protection, pv-protection, ephemeral-volume,
// persistentvolume-binder, persistentvolume-expander and attachdetach are accepted, too. Switch the same controllers off
// there: two controllers for one task write the same objects twice, and two that attach can detach a volume from a
// node that uses it:
//
//	kube-controller-manager --controllers=*,-persistentvolumeclaim-protection-controller,...
//
// All controllers share one cache of each kind of object. The program has plugins that recycle, and no others: it
// binds claims, and requests volumes from the provisioners of their classes; provisioners in the cluster, such as
// agents/cmd/nfsprovisioner and agents/cmd/localprovisioner, make volumes and delete their storage. A volume
// without a provisioner and with the policy Delete becomes Failed. Claims whose volumes other programs expand
// have an event. Volumes of in-tree plugins are not attached, also those that kube-controller-manager attaches
// by a CSI driver (CSI migration).
//
// # Recycling
//
// Pods recycle volumes with the policy Recycle, see package recycler. These flags have the names and defaults of
// kube-controller-manager:
//
//	-pv-recycler-pod-template-filepath-nfs       -pv-recycler-pod-template-filepath-hostpath
//	-pv-recycler-minimum-timeout-nfs             -pv-recycler-minimum-timeout-hostpath
//	-pv-recycler-increment-timeout-nfs           -pv-recycler-timeout-increment-hostpath
//
// The pods run in the namespace of the template, or in default. A right to create or alter pods there includes
// access to the volumes. For another namespace than default, move the Role of rbac.yaml.
//
// Host paths are recycled only in a cluster of one node, and only if they are entries of the directories of
// -pv-recycler-roots-hostpath. By default there are none, and the volumes become Failed: an author of volumes
// could otherwise empty any directory of a node. kube-controller-manager empties each path. Only root may write to
// these directories.
//
// kube-controller-manager makes and deletes host paths below /tmp of its own node (-enable-hostpath-provisioner).
// This program does not: agents/cmd/localprovisioner provisions directories of nodes.
//
// # Comparison
//
// Tests take the same steps of users, nodes and drivers with kube-controller-manager and with this program ("make
// test-manager"). In the end the objects, their annotations and finalizers, and the reasons of events are equal:
//
//   - in about 100 situations of binding, protection and reclaiming. One differs: a volume of an in-tree plugin
//     that this program does not have has no finalizer of the binder, which would keep it for ever.
//   - in about 100 situations of attaching and detaching, of which 17 differ. This program withdraws the report of a
//     volume before it waits for the end of its use, attaches a volume with one writer nowhere before it is
//     detached elsewhere, and heeds the VolumeAttachments of other programs and the room of a node. The test has
//     the reason of each difference. Situations that take minutes are left out, such as those of nodes
//     that are not ready for 6 minutes.
//   - in 16 situations of claims that other programs expand. agents/cmd/sidecar compares expansions by drivers
//     with external-resizer.
//
// -memory shows the controllers on an API server in memory, and needs no cluster.
//
// # One of several
//
// With leader election (-leader-election, on by default) one of several replicas works, namely the holder
// of the Lease -lease in the namespace -namespace. A replica that could not renew the Lease for 10 to 12
// seconds ends its calls, and waits for the Lease again; the Lease expires after 15.
//
// # Endpoints
//
// -listen serves /metrics for Prometheus, and /healthz, which fails if a replica that holds the Lease
// could not renew it in time.
//
// The program needs the rights of rbac.yaml and no others. The exit status is 0 if a signal ended the
// program, 2 if the command line or the environment is wrong, and 1 otherwise.
package main
