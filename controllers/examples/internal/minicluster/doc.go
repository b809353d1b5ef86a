// Package minicluster has the parts of a small cluster beside its provisioner, for demonstrations and
// tests: RunBinder does the work of the cluster's binder and of its protection controllers, and a [Node]
// sets up volumes for its pods.
package minicluster
