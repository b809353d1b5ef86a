// Localprovisioner provisions directories of nodes for the claims of a cluster. One runs on each node:
//
//	kubectl apply -f rbac.yaml -f class.yaml -f daemonset.yaml
//	go run ./agents/cmd/localprovisioner -kubeconfig FILE -node NAME -claims /mnt/disks
//
// It makes a directory for each claim of its storage class whose pod is scheduled to the node, with node affinity, and
// deletes the directory after the claim. The class must have the
// volumeBindingMode WaitForFirstConsumer, as class.yaml does: no provisioner is responsible for a claim
// without a selected node. Package local describes the directories, the parameters of the class, and
// the quota, which needs a file system with project quotas and CAP_SYS_ADMIN. The event of a claim whose
// size no quota enforces names the reason.
//
// The directories of -claims have the same paths in the pod of the provisioner as on the node. -name must not change while
// volumes exist. Move a directory that has volumes from -claims to -former-claims: otherwise its volumes
// are never deleted, and each has the event VolumeFailedDelete when it is released. -root is the kubelet's directory: a
// volume that is still mounted below it is not deleted.
//
// -listen serves metrics to Prometheus at /metrics, and the health at /healthz: 200 if the
// controller runs and the file systems of -claims answer within 5 seconds, else 503.
//
// The program waits for its Node at the start, also during an outage of the API server, and reads the
// label kubernetes.io/hostname. Ended by a signal, even SIGKILL, it continues in the next run.
//
// The exit status is 0 if a signal ended the program, 2 if the command line is wrong, and 1 otherwise.
//
// # Nodes that are gone
//
// With -gone-nodes the program works for the nodes that do not exist any more, on any machine and without privileges:
//
//	kubectl apply -f gonenodes-rbac.yaml -f gonenodes.yaml
//	go run ./agents/cmd/localprovisioner -kubeconfig FILE -gone-nodes -namespace kube-system
//
// It removes the selected node from claims, so that the scheduler selects another one. A released volume has the event
// VolumeFailedDelete once, within 10 minutes: no instance can delete its directory. "kubectl delete pv" removes it. A bound
// claim keeps its volume, in case the node comes back: delete the claim to give up its data.
//
// The node of a claim is gone if no Node has its name. The node of a volume is gone if no Node has its hostname as the
// label kubernetes.io/hostname, and none lacks the label. Both are noticed within 5 minutes. Replicas elect one by a
// Lease.
//
// If the Node object alone is deleted, or has another hostname, a directory is left when a user deletes its volume
// meanwhile, or when the program of the node ends before it has stored the volume.
package main
