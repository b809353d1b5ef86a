// Package clustertest has clusters for tests of provisioners: a [Cluster] has users and a binder, on an API
// server in memory or on a real one. A [Server] is a real API server with the manifests of a program: it
// compares the rights of the manifests with those that the program exercises.
package clustertest
