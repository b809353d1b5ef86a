// Package building builds mounts that are not in the mount table yet. Files:
//
//   - builder: the entry points; tier: the system calls to build with.
//   - tree: the built mount; source: the directory or file of a bind mount.
//   - detached, staged, helped: the three ways to build.
//   - lone_clone, anchor: clones of sources in mounts with many submounts.
//
// # Glossary
//
//   - Tree: a complete mount that is not visible yet.
//   - Detached tree: a tree outside of all mount namespaces, reachable by descriptor alone.
//   - Staged tree: a tree in a staging area, on kernels without detached trees.
//   - Draft: the parts from which a tree is built.
//   - Tier: the newest set of system calls that the kernel offers.
//   - Clone: a copy of a mount, at a directory of its file system. The kernel inspects every
//     mount that is attached in the original.
//   - Lone source: a source without submounts. A lone clone proves that its source is one.
//   - Anchor: a private clone of a crowded mount. Bind mounts from a crowded mount are
//     clones of its anchor, in which no mount is attached.
//   - Crowded: with 256 or more mounts attached.
//   - Spot: the position of a source: its mount, and the path there.
//
// # Guarantees
//
//   - A tree has its flags, its ID map and its propagation before it is visible.
//   - A tree of a bind mount shows the same file as its source.
//   - A tree that is released without having been attached leaves no mount.
package building
