// Package spec describes the mounts that requests ask for, and checks the descriptions.
//
// # Glossary
//
//   - Spec: the description of one mount: source, target, options and relations to other
//     mounts. A spec that [Spec.Check] has accepted is complete.
//   - Bind mount: a spec without a file system type.
//   - Remount: a spec that changes the flags of an existing mount.
//   - Submounts: the mounts below the source of a bind mount.
//   - Propagation: the relation of a mount to its peer group, mount_namespaces(7).
//   - ID map: the translation of the owners that a file system stores to the owners that a
//     mount shows.
//   - Range: consecutive IDs of an ID map.
//   - Helper: a program mount.TYPE.
//
// # Guarantees
//
//   - Functions compute on their arguments alone. No function makes a system call.
//   - A refusal is a [*failure.InputError] that names the field of mount.Request.
package spec
