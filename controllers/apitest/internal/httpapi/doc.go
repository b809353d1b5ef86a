// Package httpapi serves an [api.Cluster] by HTTP, as an API server does: for clients that are no
// api.Cluster, such as a clientset of client-go or a client of controller-runtime.
//
// It serves the kinds of an api.Cluster with all their verbs, discovery, and JSON and protobuf. It
// answers 404 for every other path, and it serves no tables: kubectl shows its own columns.
package httpapi
