// Package kubeserver runs a real API server, with its etcd, for one test: both are local
// processes, listen on loopback only, keep their files in the test's directory and end with the
// test.
//
// kube-apiserver is built from the Go module in the directory build, whose go.mod pins its
// version and whose go.sum pins its source. etcd is Debian's package etcd-server, unpacked and
// not installed. [Fetch] builds and downloads them once, into the directory
// VOLUMEKIT_KUBE or a directory in the user's cache; "make test-cluster" does so and runs the
// tests that use [Start]. A cold build takes minutes.
//
// kube-controller-manager and the companions of CSI drivers ([Sidecar]) are built as their users build them, with
// optimization, since benchmarks compare with them.
//
// [StartNode] adds a node to the server's cluster, for tests of a program that shares a node with a
// kubelet: containerd and runc from Debian, and a kubelet that is built as the API server is. The
// test runs in the namespaces of [Isolate], with empty directories over the machine's own.
// "make test-kubelet" runs the tests that use it.
//
// A test can interfere with the server: [Server.Kill] and [Server.Restart] as in a crash,
// [Server.Compact] makes old resource versions expire, [Server.Rewrite] changes an object as no client can,
// [Server.IssueCertificate] replaces the
// serving certificate by one of another lifetime.
//
// # Words
//
//   - admin: the user with all rights whose token is [Server.Token]; it may impersonate others.
//   - cache: the directory that holds the programs of one version.
//   - certificate authority: the test's own, which signs the serving certificate.
package kubeserver
