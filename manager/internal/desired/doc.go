// Package desired holds the desired state of the world: the volumes that the pods of a node
// need. Values are immutable versions; all functions are pure.
//
// # Glossary
//
//   - demand: the desired volumes of one pod, with its unresolved volumes
//   - unresolved volume, failed volume: a volume of a pod whose claim, persistent volume or
//     plugin data could not be read
//   - population: the demands of all pods, and the desired world computed from them, with
//     indexes by pod, object, storage and device mount path
//   - join: the demands of several pods for one volume, merged
//   - delta: the difference of two populations
//   - writer: a pod that may write to a volume
//   - kept pod: a pod with unresolved volumes, whose existing volumes stay
//   - outer name: the name of a volume in the specification of a pod
//
// A change of one demand costs the same for any number of pods: the population shares all
// other parts with the version before.
package desired
