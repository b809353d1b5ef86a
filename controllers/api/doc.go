// Package api is the Kubernetes API server as controllers use it: one small typed client for
// each kind, caches of the objects of a kind, and reads that see a controller's own writes.
//
// # Clients
//
// A [Client] has the methods of client-go's typed clients, with the same signatures, so that
// these satisfy it without an adapter. A [Cluster] returns the client of each kind that the
// cluster side uses. kubeclient.New returns the Cluster of a clientset; package apitest has one in
// memory for tests. A controller requires the narrowest interface that has its kinds.
//
// # Caches
//
// A [Cache] holds the objects of one kind in memory. It is built from a client, or wraps an
// informer of the embedder. [Objects] put the results of a controller's own writes on top of a
// cache, so that no decision is based on a state older than these writes:
//
//	cluster := kubeclient.New(clientset)
//	cache := api.NewCache(cluster.PersistentVolumes(), api.CacheConfig{})
//	volumes := api.NewObjects(api.ClusterScoped(cluster.PersistentVolumes()), cache)
//	go cache.Run(ctx)
//	go volumes.Run(ctx)
//
// An [ObjectWatch] holds one object, at a small part of the cost of a cache.
//
// # Words
//
//   - object: an object of the API, such as a pod. Objects that this package returns are shared:
//     change only a deep copy.
//   - key: the namespace and name of an object; the namespace of a cluster-scoped object is "".
//   - change: a new, updated or deleted object in a cache. A replay is a change that is no news.
//   - own write: a write through Objects; own state: the state after it, until the cache has it.
//   - version: the metadata.resourceVersion of an object. The API server increases it with each
//     write; versions of one kind are comparable.
package api
