// Package reading reads pods, claims and persistent volumes from the sources of the embedder,
// and collects the changes that the sources report. A source that does not respond delays only
// the volumes that depend on the missing object.
//
// # Glossary
//
//   - source: the program's supplier of pods, or its reader of claims and volumes
//   - ref: the name of a pod, a claim or a persistent volume
//   - object: the result of one read, or its error
//   - generation: a number that the caller increases after each reported change; an object of an
//     earlier generation may be older than the change
//   - slow read: a read that takes longer than a second
//   - abandoned read: a slow read for which the caller no longer waits; its object goes to the
//     next caller
//   - pending: the error of an object whose read is still in flight
//   - change set: the objects that a source reported as changed, and that have to be read again
package reading
