// Package reconstruction queries plugins for the volumes in the directories of pods, as an earlier
// run of the manager left them.
//
// # Glossary
//
//   - found volume: a path where the volume of a pod would be, see package poddirs
//   - reconstructed volume: the actual state that a plugin returns for a path, all of it
//     uncertain; or the error of a path that the plugin does not recognize
//   - query: one call of a plugin about one path, with a time limit
//   - patience: how long a caller waits for one query; the plugin's later paths then wait in the
//     background
//   - late: a result after its caller has continued; it is kept until DrainLate
//   - leftover scope: the part of a volume's identity that a plugin reads from an unrecognized
//     path
//
// A slow plugin delays no other plugin.
package reconstruction
