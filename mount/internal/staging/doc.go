// Package staging provides private mounts in which other mounts are built before they move to
// their targets.
//
// # Glossary
//
//   - Area: a private tmpfs for one mount in the making.
//   - Place: the path at which the mount in the making is, in an area.
//   - Parent: the directory of all areas of one user, which only this user can change.
//   - Lock: a file beside an area that its process keeps locked.
//   - Stale area: an area whose process has been killed, so that its lock is free.
//   - Sweep: the removal of stale areas.
//
// # Guarantees
//
//   - An area is invisible in other mount namespaces.
//   - An area that was opened is removed when it is released, or by the first sweep that a
//     later process runs in the same parent.
//   - A caller waits for a sweep until its context ends, or for a limited time: a stale area
//     may contain a mount of a dead server.
package staging
