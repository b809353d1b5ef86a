// Recycle empties a volume whose claim is gone, and shows that no other file was changed.
//
//	go run ./examples/recycle [-files N]
//
// makes a directory of its own a local volume, fills it as a pod might, and recycles it in
// process (recycler.NewLocal): first with a tmpfs mounted in it, which is refused. It needs
// no preparation and no root: it mounts in a user and mount namespace of its own.
//
//	go run ./examples/recycle -pod
//
// recycles by a pod (recycler.NewPod) in a cluster in memory: once to the end, and once with
// a pod that is deleted while it runs.
package main
