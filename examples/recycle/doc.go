// Recycle empties a volume that nobody claims any more, and shows that nothing else
// was touched.
//
//	go run ./examples/recycle [-files N]
//
// makes a directory of its own a local volume, fills it with what a pod may leave
// behind, and recycles it in process (recycler.NewLocal): first with a tmpfs mounted in
// it, which is refused. It needs no preparation and no root: it mounts in a user and
// mount namespace of its own.
//
//	go run ./examples/recycle -pod
//
// does it by a pod (recycler.NewPod), in a cluster that is in memory: once well, and
// once with somebody who deletes the pod.
package main
