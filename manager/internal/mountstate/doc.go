// Package mountstate reads the mount at a path, as an operation left it or failed on it.
//
// # Glossary
//
//   - mount state: whether a path is a mount point, the mount's ID, and the mounts below it
//   - mount ID: the number of a mount; 0 if the Mounter has no IDs
//   - mounts below: the mounts at paths below the path, which keep it busy
//
// A retry of a failed operation may succeed once the mount state has changed.
package mountstate
