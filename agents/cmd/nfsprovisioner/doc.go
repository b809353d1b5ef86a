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
// It accepts the flags -v and -logtostderr of glog. -v=4 logs the calls of the storage, -v=6 also the requests to the
// API server; -logtostderr has no effect.
//
// # Differences
//
// An invalid class or claim is an event of the claim that names the field and its value. Package nfs of the root module
// documents the parameters of classes. These differ from nfs-subdir-external-provisioner v4.0.18, which "there" means:
//
//   - A directory of a pathPattern that exists already is refused, unless this program made it for a class with
//     onDelete retain. With the parameter adopt, and onDelete retain, it is used with its files, so that a claim that is
//     created again in a new cluster finds its data. Package nfs names the exceptions.
//   - A parent of the directory that exists already is used only if no claim chooses its name.
//   - A claim that requests more than the export has is refused. The parameter overcommit accepts it.
//   - An empty variable of a pathPattern is refused, such as nfs.io/storage-path of the README's class for a claim
//     without this annotation; there the claim gets the directory of its namespace.
//   - Values with a "/", such as "a/b", and the values "." and ".." are refused: a tenant chooses one name.
//   - Claims share a directory only by a class with onDelete retain, and no directory is in that of another claim.
//     There the deletion of one of them takes the files of all.
//   - Refused are paths of more than 1024 bytes or with control characters, and those that begin with archived- or
//     .volumekit; symbolic links, and other file systems below the export.
//   - An archive is archived-NAME-VOLUME at the top of the export, or archived-NAME if NAME contains VOLUME, with a number
//     if that exists. NAME is the last component of the directory. There it is archived-NAME, and a second one fails.
//   - A volume whose class does not exist any more is archived. There it stays.
//   - Unknown parameters, and other values of onDelete than delete and retain, are refused. There they have no effect.
//   - The class determines mode, uid and gid, and only those of a new or empty directory. Without them the mode is 0777,
//     as there, and the server chooses the owner.
//   - Claims with a data source, a VolumeAttributesClass or volumeMode Block are refused.
//
// # The export
//
// With -dir the program uses a directory at which the export is mounted, such as a volume of its pod,
// and needs no privilege but root's access to files. Without -dir it uses /persistentvolumes
// if NFS is mounted there, as in manifests of nfs-subdir-external-provisioner, and otherwise mounts
// the export by itself for each call, below -root, which needs CAP_SYS_ADMIN. Then a server that
// does not answer costs the calls that wait for it, until -timeout, and nothing else.
//
// Volumes keep their first server and path, by which pods mount them. After the export has moved, name each former one
// by -alias SERVER:PATH: otherwise the directories of its volumes are never deleted, and a released volume has the event
// VolumeFailedDelete.
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
