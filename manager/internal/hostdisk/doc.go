// Package hostdisk is the part of the host that the manager itself reads and writes: records,
// the directories of pods, subpath mounts, and the use of block devices.
//
// # Glossary
//
//   - record: the file of a volume, see package record
//   - subpath: a mount of a part of a volume, for a container
//   - busy subpath: one that a process uses; it is detached if its pod is gone
//   - device use: whether the kernel or a process holds a block device exclusively
//
// The simulation has a disk of its own in its place.
package hostdisk
