// Controlplane runs the controllers of this module for a cluster: it stands in for controllers of
// kube-controller-manager, under their names.
//
//	kubectl apply -f rbac.yaml -f deployment.yaml
//
//	persistentvolumeclaim-protection-controller   package protect
//	persistentvolume-protection-controller        package protect
//	ephemeral-volume-controller                   package protect
//	persistentvolume-binder-controller            package bind, without plugins
//	persistentvolume-expander-controller          package expand, without plugins
//
// -controllers selects some of them, as the flag of kube-controller-manager does: "*" all, NAME one of
// them, -NAME all but this one. The older names pvc-protection, pv-protection, ephemeral-volume,
// persistentvolume-binder and persistentvolume-expander are accepted, too. Switch the same controllers off
// there, as two controllers for one task write the same objects twice:
//
//	kube-controller-manager --controllers=*,-persistentvolumeclaim-protection-controller,...
//
// All controllers share one cache of each kind of object. The program has no volume plugins: it binds
// claims, and asks the provisioners of their classes for volumes; provisioners in the cluster, such as
// examples/nfsprovisioner and examples/localprovisioner, make volumes and delete their storage. A volume
// with the policy Recycle, and one without a provisioner and with the policy Delete, becomes Failed. Claims
// whose volumes other programs expand have an event.
//
// A test takes the same steps of users with kube-controller-manager and with this program, in more than 90
// situations: the objects, their annotations and finalizers, and the reasons of events are equal in the
// end ("make test-manager"). One differs: a volume of an in-tree plugin that this program does not have
// has no finalizer of the binder, which would keep it for ever.
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
