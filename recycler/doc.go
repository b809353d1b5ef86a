// Package recycler empties volumes whose reclaim policy is Recycle. Recycle returns nil for
// a volume that is verified to be empty; after an error the volume must not be used yet.
//
// # By pod
//
// [Pod] works as Kubernetes does: a pod mounts the volume, removes its files, and succeeds
// if the volume is empty afterwards. It reaches the cluster through a [PodClient], for
// which client-go is one choice, and runs anywhere, on a node or not.
//
//	pods, err := recycler.NewPod(recycler.PodConfig{Client: client, Namespace: "recycling"})
//	err = pods.Recycle(ctx, pv.Name, volume.NewSpecFromPersistentVolume(pv, false))
//
// A volume counts as recycled only if a pod of this call, identified by its UID, has
// succeeded with the volume and the command of the template. Pods are independent copies
// of the template; each has a random name and records its owner, its volume and its call
// ([OwnerLabel] and others). A pod of that name from before is never a success. Pods of
// earlier calls, such as those of a process that crashed, are removed by UID first, also
// if they have succeeded: the volume may have been used since. Pods of other owners are
// left alone.
//
// The pod is watched, and polled besides, so that a watch that ends, expires or stays
// silent costs time alone. The errors are:
//
//	ErrPodFailed            final      the scrub failed: the error has its message
//	ErrPodAltered           final      the cluster changed the pod's volume or command
//	ErrPodImage             transient  the image cannot be pulled (final: its name is invalid)
//	ErrPodTimeout           transient  it did not start or end in time
//	ErrPodEvicted           transient  the node has ended it
//	ErrPodDeleted           transient  another client has deleted it
//	ErrPodForeign           transient  another owner's pod has its name
//	ErrPodAPI               either     the API refused, or failed repeatedly
//	ErrPodLeft              uncertain  it could not be removed (transient: but it has ended)
//	the error of ctx        transient
//
// At the end Recycle removes the pod and waits until it is gone or has ended; after the end
// of the context it has a time of its own for that ([PodConfig].CleanupTimeout). If the API
// has not answered whether it created the pod, it may still create it for a while: Recycle
// waits for that pod and removes it. A process that dies in that time leaves the pod.
//
// The pod needs a volume source that can be written in a pod: [NFSSource] returns that of
// an NFS volume, and refuses volumes that a pod might mount from another place. For
// other kinds of volumes the embedder supplies [PodConfig].Source; no host path is allowed
// without it.
//
// # In process
//
// [Local] needs no cluster: it mounts the volume through its plugin in a directory of its
// own, empties it by package util/scrub, which never leaves the volume, unmounts it, and
// verifies through a second mount that it is empty.
//
//	here, err := recycler.NewLocal(recycler.LocalConfig{Host: host, Plugin: mgr.FindPluginBySpec})
//	err = here.Recycle(ctx, pv.Name, volume.NewSpecFromPersistentVolume(pv, false))
//
// The error names files that could not be removed (scrub.UnremovableError) or were found
// afterwards (scrub.NotEmptyError). The next call continues the work of a call whose
// context ended or whose process died.
//
// # For tests, and for client-go
//
// Package recyclertest has a cluster in memory. The package controllers/examples/clientgo
// has the client over client-go.
package recycler
