// Package httpapi serves an [api.Cluster] by HTTP, as an API server does: for clients that are no
// api.Cluster, such as a clientset of client-go or a client of controller-runtime.
//
// It serves the kinds of an api.Cluster with all their verbs, discovery, and JSON, YAML and protobuf. It
// answers 404 for every other path, such as /openapi, and it serves no tables: kubectl shows its own columns. A
// deletion is answered with a status. Fields that do not exist are refused on demand, and never a warning.
package httpapi
