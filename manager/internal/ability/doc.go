// Package ability finds the abilities of plugins: to attach volumes, to mount them once for all
// pods, and to make block devices available.
//
// # Glossary
//
//   - ability: an interface that a plugin may implement, such as volume.BlockVolumePlugin
//   - shared volume: a volume that is mounted, or set up as a device, once for all pods
//   - device mount path: where the plugin mounts a shared volume; of a block volume, its global
//     map path
//
// A missing ability is an error that wraps volume.ErrNotSupported.
package ability
