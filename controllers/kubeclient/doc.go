// Package kubeclient connects the cluster side to an API server with the clientset of
// client-go. It is the only package of the library that imports k8s.io/client-go/kubernetes: a
// program with clients of its own implements [api.Cluster] and does not link the clientset.
package kubeclient
