// Package clustertest has clusters for the tests of the programs. A [Cluster] has users and a binder, on an API server in
// memory or on a real one. A [Server] is a real API server; an [Account] of it is the service account of a program, whose
// rights a test compares with those that the program exercises.
package clustertest
