// Package table answers questions about the current mount table, without reading it for each
// question.
//
// # Glossary
//
//   - Cache: an index of all mounts, with a feed. Each question first applies the feed's news
//     to the index (cache_invalidation_linux.go); no goroutine runs between questions.
//   - Feed: a source of news about the mount table. The events feed names the changed mounts
//     (fanotify, Linux 6.15). The poll feed reports that any mount may have changed.
//   - Event: the news about one mount: attached, detached or moved.
//   - Pending mount: a mount that the feed has named and the index does not hold yet.
//   - Index: the mounts by device, source, root and parent. It holds attributes of mounts that
//     never change, and the place of a mount in its parent when it was attached.
//   - Root of a process: the mount and directory at "/". A cache answers only callers with
//     the root of the caller that opened it.
//   - Departure: a mount that this process is unmounting.
//   - Spot: a resolved path: the mount that it is in, its inode, its path without links.
//   - Source: the device, export or text that mounts are made from.
//   - Question, answer, content, reference: see package mountinfo.
//
// # Guarantees
//
//   - The cache is never stale: a change that a call made before the question is in the
//     answer. Attributes that change without an event (paths, after a directory was renamed)
//     are read from the kernel for the few mounts of an answer.
//   - A question that the cache cannot answer fails with an error that wraps
//     errors.ErrUnsupported: on older kernels, behind filters, in another mount namespace.
//     [Queries] then reads the whole table.
//   - No call waits for a file system or a server, besides the lookup of a caller's path.
package table
