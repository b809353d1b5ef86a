// Package naming names the volumes of a node and their parts, and has the maps that the
// manager keys by these names.
//
// # Glossary
//
//   - storage: a volume by its plugin and the plugin's GetVolumeName
//   - unique name: the name of a volume on this node; a shared volume has one for all pods,
//     another volume has one for each pod
//   - pod key: a volume in a pod, by the name of its directory
//   - pod volume: a volume in a pod, by its name in the pod's specification
//   - pod directory: a volume's directory in a pod, by plugin and name
//   - place: a volume's part for one pod, or the part shared by all pods
//   - traits: the abilities of a plugin for a volume, which decide about the unique name
//   - revision: a number that changes when a volume has to be set up again
//
// A copy of a map is an immutable version: a change of a map costs the same for any number
// of volumes, and changes no copy.
package naming
