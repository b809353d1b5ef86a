// Localdriver is a CSI driver for directories of nodes: CreateVolume makes a directory for each claim. One runs on
// each node, beside the usual programs of Kubernetes:
//
//	kubectl apply -f rbac.yaml -f csidriver.yaml -f daemonset.yaml
//	go run ./agents/cmd/localdriver -node-id NAME -claims /var/lib/volumekit-claims
//
// It serves the driver at -endpoint and registers it with the kubelet in -kubelet-dir, without another program.
// Package local describes the directories, the parameters of the class, and the quota. The directories of -claims
// and of -kubelet-dir have the same paths in the driver's pod as on the node; mounts must propagate to the node.
//
// The records of volumes are in -kubelet-dir/plugins/NAME, where the socket is. -name, -node-id and -claims must not
// change while volumes exist.
//
// The exit status is 0 if a signal ended the program, 2 if the command line is wrong, and 1 otherwise.
package main
