// Localprovisioner provisions directories of nodes for the claims of a cluster. One runs on each node:
//
//	kubectl apply -f rbac.yaml -f class.yaml -f daemonset.yaml
//	go run ./controllers/examples/localprovisioner -kubeconfig FILE -node NAME -claims /mnt/disks
//
// It makes a directory for each claim of its storage class whose pod the scheduler has placed on the
// node, with node affinity, and deletes the directory after the claim. The class must have the
// volumeBindingMode WaitForFirstConsumer, as class.yaml does: no provisioner is responsible for a claim
// without a selected node. Package local describes the directories, the parameters of the class, and
// the quota, which needs a file system with project quotas and CAP_SYS_ADMIN. The event of a claim whose
// size no quota enforces names the reason.
//
// The directories of -claims have the same paths in the pod of the provisioner as on the node. -name must not change while
// volumes exist. A directory that is removed from -claims becomes one of -former-claims as long as it has volumes: else
// they are never deleted, and each has the event VolumeFailedDelete when it is released. -root is the kubelet's directory: a volume that is still
// mounted below it is not deleted.
//
// -listen serves metrics to Prometheus at /metrics, and the health at /healthz: 200 if the
// controller runs and the file systems of -claims answer within 5 seconds, else 503.
//
// The program waits for its Node at the start, also during an outage of the API server, and reads the
// label kubernetes.io/hostname. Ended by a signal, even SIGKILL, it continues in the next run. If a node
// is gone for good, delete its volumes and the finalizers on them by hand.
//
// The exit status is 0 if a signal ended the program, 2 if the command line is wrong, and 1 otherwise.
package main
