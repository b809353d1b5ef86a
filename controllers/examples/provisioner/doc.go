// Provisioner shows storage on demand without a cluster: a claim becomes a directory that is mounted
// for a pod, and goes away again.
//
//	go run ./controllers/examples/provisioner
//
// The API server is in memory (package apitest). The binder and the node are parts of package
// minicluster, which other examples share. In this package are:
//
//   - directories.go: the provisioner, as in a real cluster, where a program passes
//     kubeclient.New(clientset) to provision.New.
//   - demonstration.go: the steps of the user.
//
// The program mounts in a user and mount namespace of its own; no root is needed. Where the kernel
// permits no such namespace, the program says so and uses a kernel in memory.
package main
