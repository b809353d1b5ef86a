// Nfsdriver is a CSI driver for NFS: CreateVolume makes a directory of one export for each claim.
//
//	kubectl apply -f rbac.yaml -f csidriver.yaml -f deployment.yaml -f daemonset.yaml
//	go run ./agents/cmd/nfsdriver -node-id NAME
//	go run ./agents/cmd/nfsdriver -node-id NAME -server nfs.example.com -path /export -export DIR
//
// The first one runs on each node, where it mounts volumes, and registers the driver with the kubelet in
// -kubelet-dir. The second one creates and deletes volumes, once for a cluster: the export must be mounted at -export, and
// the records of volumes are in the directory .volumekit of the export. Package nfs describes the parameters of the
// class. A persistent volume that an administrator writes needs no second one: see package csi/driver for its attributes.
//
// -kubelet-dir has the same path in the driver's pod as on the node; mounts must propagate to the node. -name must
// not change while volumes exist.
//
// The exit status is 0 if a signal ended the program, 2 if the command line is wrong, and 1 otherwise.
package main
