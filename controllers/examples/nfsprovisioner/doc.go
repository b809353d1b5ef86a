// Nfsprovisioner provisions volumes on an NFS export: a directory for each claim.
//
//	kubectl apply -f rbac.yaml -f deployment.yaml -f class.yaml
//
// It takes the place of nfs-subdir-external-provisioner: it reads the same environment variables,
// has the same class parameters, and deletes the volumes of that program. A flag overrides its
// variable:
//
//	-provisioner      PROVISIONER_NAME        the name of the provisioner in classes; required
//	-server           NFS_SERVER              the server; required
//	-path             NFS_PATH                the path of the export; required
//	-leader-election  ENABLE_LEADER_ELECTION  true (the default) or false
//	-kubeconfig       KUBECONFIG              empty: the service account of the pod
//	-namespace        POD_NAMESPACE           of the Lease; empty: that of the service account
//
// Further parameters of classes are mode, uid and gid; package nfs of the root module documents all.
// An invalid class or claim is an event of the claim that names the field and its value.
//
// # The export
//
// With -dir the program uses a directory at which the export is mounted, such as a volume of its pod,
// and needs no privilege but root's access to files. Without -dir it uses /persistentvolumes
// if NFS is mounted there, as in manifests of nfs-subdir-external-provisioner, and otherwise mounts
// the export by itself for each call, below -root, which needs CAP_SYS_ADMIN. Then a server that
// does not answer costs the calls that wait for it, until -timeout, and nothing else.
//
// Volumes keep the server and the path of the time when they were created. After the export has moved, name the former
// ones by -alias SERVER:PATH, once for each: without it their directories are never deleted, and each such volume has the
// event VolumeFailedDelete when it is released. Pods still mount these volumes as they were created.
//
// # One of several
//
// With leader election one of several replicas provisions, namely the holder of the Lease that is
// named for the provisioner. Stop nfs-subdir-external-provisioner first: a version that locks another
// object than a Lease does not exclude this program. A replica that could not renew the Lease for 10
// to 12 seconds ends its calls, and waits for the Lease again; the Lease expires after 15. A replica
// that ends releases the Lease after its last call. A file operation that the server does not answer
// can outlast its call, and the Lease.
//
// # Endpoints
//
// -listen serves /metrics for Prometheus, and /healthz, which fails if a replica that holds the Lease
// could not renew it in time.
//
// The program needs the rights of rbac.yaml and no others. The exit status is 0 if a signal ended
// the program, 2 if the command line or the environment is wrong, and 1 otherwise.
package main
