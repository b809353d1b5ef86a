// Package mountinfo reads the mount table from the text of /proc/thread-self/mountinfo, and
// answers questions about a table that was read.
//
// # Glossary
//
//   - Mount table: all mounts that the calling thread can reach from its root.
//   - Entry: one line of the mount table.
//   - Mount point: the path at which a mount is attached.
//   - Root: the directory or file of a file system that a mount shows at its mount point.
//   - Content: a root together with the device of its file system. Mounts with one content
//     show the same directory or file.
//   - Visible mount: a lookup of its mount point arrives at it. Other mounts are covered by a
//     mount at their own mount point, or hidden by a mount further up.
//   - Reference: another mount point at which the same content is visible.
//   - Origin: a path to the content of a mount through another mount.
//   - View: a table with indexes for many questions.
//
// # Guarantees
//
//   - Reading involves no file system besides proc, so no call waits for a server.
//   - A table and a view are data: they do not follow later changes. Package table follows
//     them.
package mountinfo
