// Package poddirs reads and tidies the directories of pods, <root>/pods, without access to the
// volumes in them.
//
// # Glossary
//
//   - volume: a directory, or a link to a device, where a plugin sets a volume up
//   - stray: a path in the directory of a pod that is not a volume, and may hide one
//   - subpaths: mounts of parts of volumes, for containers
//   - empty directory: left by an operation that was killed; rmdir decides which directories are empty
//   - names: the entries of a directory, sorted
//
// The host's file system and the simulated one pass their own functions for reading names.
package poddirs
