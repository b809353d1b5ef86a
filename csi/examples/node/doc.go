// Node shows a volume of a CSI driver in a pod, on this machine and without a cluster: the volume is
// created, staged and published for a pod, and goes away again.
//
//	go run ./csi/examples/node
//
// Both ends are real, and talk over Unix sockets:
//
//   - driver.go: the plugin for local volumes, served as a driver that registers itself.
//   - node.go: the manager of the node's volumes, with the plugin kubernetes.io/csi and the registration
//     of drivers.
//   - steps.go: the steps of the user, and of the cluster's provisioner.
//
// The program mounts in a user and mount namespace of its own; no root is needed. Where the kernel
// permits no such namespace, the program says so and uses a kernel in memory.
package main
