// Package recycler empties volumes whose reclaim policy is Recycle: a volume comes back
// verified to be empty, or with an error, and then it is not to be used again yet.
//
// # By pod
//
// [Pod] does it as Kubernetes does, by a pod that mounts the volume, removes what is in
// it, and succeeds if it is empty then. It needs of the cluster what [PodClient] says,
// for which client-go is one choice, and works without a node at hand.
//
//	pods, err := recycler.NewPod(recycler.PodConfig{Client: client, Namespace: "recycling"})
//	err = pods.Recycle(ctx, pv.Name, volume.NewSpecFromPersistentVolume(pv, false))
//
// A volume counts as recycled only if a pod that this very call has created, known by its
// UID, has succeeded with the volume and the command that it was given. Pods are
// copies of the template that share nothing; each has a name that nobody guesses, and
// records the owner, the volume and the call that it is for ([OwnerLabel] and others).
// That a pod of the name exists already is never a success. What an earlier call left,
// before a crash of the process for one, is removed by its UID first, also if it has
// succeeded: the volume may have been used since. Pods of others are left alone.
//
// The pod is watched, and looked at from time to time besides, so that a watch that ends,
// expires or says nothing costs time alone. How it can end otherwise is in the errors:
//
//	ErrPodFailed            final      the scrub failed: what it said is in the error
//	ErrPodAltered           final      the cluster made another pod of it
//	ErrPodImage             transient  the image is not to be had (final: its name is bad)
//	ErrPodTimeout           transient  it ran, or waited to, for too long
//	ErrPodEvicted           transient  the node has ended it
//	ErrPodDeleted           transient  somebody has deleted it
//	ErrPodForeign           transient  somebody has a pod of that name
//	ErrPodAPI               either     the API refused, or failed again and again
//	ErrPodLeft              uncertain  it could not be removed (transient: but it has ended)
//	the error of ctx        transient
//
// At the end the pod is removed, and seen to be gone or to have ended, in a time of its
// own ([PodConfig].CleanupTimeout) if the context has ended. If the API has not said
// whether it created the pod, it may still do so for a while: the call waits for that,
// and removes what comes. A process that dies in that very time cannot.
//
// A pod mounts by what can be written in a pod: [NFSSource] is that of NFS volumes, and
// refuses those that a pod might mount from elsewhere. For volumes of other kinds the
// embedder has to say ([PodConfig].Source), paths of the host among them, of which none
// is allowed by itself.
//
// # In process
//
// [Local] needs no cluster: it mounts the volume through its plugin, where no pod is,
// removes what is in it by package util/scrub, which never leaves it, unmounts it, and
// looks through a second mount whether nothing is left.
//
//	here, err := recycler.NewLocal(recycler.LocalConfig{Host: host, Plugin: mgr.FindPluginBySpec})
//	err = here.Recycle(ctx, pv.Name, volume.NewSpecFromPersistentVolume(pv, false))
//
// What cannot be removed, or is there afterwards, is named in the error: a
// scrub.UnremovableError, a scrub.NotEmptyError. A call that was interrupted, by its
// context or with its process, is gone on with by the next.
//
// # For tests, and for client-go
//
// Package recyclertest has a cluster in memory for tests. The module in examples/clientgo
// has the client over client-go.
package recycler
