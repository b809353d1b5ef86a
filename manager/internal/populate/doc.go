// Package populate computes the demand of a pod: it resolves the pod's volumes, through claims
// and plugins, to the desired state. It reads by a volume.ClaimReader, whose objects one round
// of reads has fixed, so that a population depends on its inputs alone.
//
// # Glossary
//
//   - resolve: compute the desired state of a volume from the pod, the claim, the persistent
//     volume and the plugin
//   - population: the resolved volumes of all pods (package desired)
//   - existing volume: a volume that is, or may be, up in a pod
//   - mismatch: the claim of a running pod has another volume than the one that is up; the
//     existing volume stays for the life of the pod
//   - protection: the finalizer that keeps a claim while a pod uses it
//   - view: the read-only directory of a claim that the pod also writes to
//   - last specification: that of the last population, which replaces one that cannot be read
//   - pending: a read that is still in flight
package populate
