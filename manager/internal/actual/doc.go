// Package actual holds the actual state of the world: the volumes that are, or may be,
// attached, mounted and set up on this node. It is pure data.
//
// # Glossary
//
//   - state: the certainty about an attachment, a mount or a set-up: absent, uncertain or
//     present
//   - volume: the state of one volume: attached, mounted for all pods, and up in pods
//   - device mount: the mount for all pods, at the device mount path; of a block volume, its
//     device after SetUpDevice
//   - pod: the state of a volume in one pod
//   - world: all volumes, with indexes by directory, storage, device mount path and pod
//   - last pod: the pod for which a volume was last attached or mounted
//   - stale pod: a pod whose set of existing volumes has changed since the last population
//   - expected mount: a mount that exists unless another process has changed it
//   - mount index: finds the expected mounts that a mount event can affect
//
// A copy of a World is an immutable version. Volumes and pods in it are never changed: Put
// replaces a volume, and updates the indexes at a cost that does not depend on the number of
// volumes.
package actual
