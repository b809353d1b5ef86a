// Package hostfile reads and writes small files and symbolic links below a root directory. No path leads
// out of the root, and no symbolic link on the way is followed.
//
// # Glossary
//
//   - root: the directory that contains all files, without symbolic links in its path.
//   - temporary file: a file that is being written, beside its final name, with [TemporarySuffix].
//   - durable: a write that survives a loss of power once it has returned.
//
// One caller at a time writes a file. Readers find the old content or the new one, whole, also after a loss
// of power: a file system may write the new name before the content, so that each write syncs the content,
// except one of a single byte in place.
package hostfile
