// Package fit finds the volume for a claim: an [Index] holds the free volumes of a cluster and answers
// "the smallest volume that fits" in logarithmic time. A volume that the Index has chosen is reserved:
// concurrent callers never receive one volume twice.
//
// The Index also holds the claims that wait for a volume, so that a volume that becomes free wakes one
// claim that it fits, and not all of them.
//
// The order of choice is that of Kubernetes: volumes with the fewest access modes first, then the
// smallest one, then by name. Volumes and claims are divided by class, attributes class and volume mode,
// then by their access modes; each part is a balanced tree in the order of sizes. A claim with a label
// selector costs a walk through the volumes that are large enough, and a volume that becomes free costs a
// walk through the waiting claims with selectors that its size fits.
//
// Words:
//
//   - free: a volume that no claim refers to, and that is neither deleted nor in use.
//   - reference: the claim in spec.claimRef of a volume, in the API.
//   - reservation: a volume that the Index has chosen for a claim, in memory alone.
//   - waiting: a claim for which Reserve has found no volume.
package fit
