// Package recordstore keeps small files in a directory, each of which is replaced as a whole and durably.
//
// Only regular files are read: a pipe or a device in the directory does not block a read. No symbolic link
// makes the directory lie outside its root. The caller defines the content of a record, its version and its
// name.
//
// # Glossary
//
//   - root: an existing directory that contains the directory of the records
//   - record: a regular file with a limited size in the directory of the records
//   - temporary file: a record that is being written; a crash may leave it, and the next write replaces it
//   - durable: on disk once the call has returned, also after a loss of power
//
// One caller at a time writes or removes a record. Concurrent readers find the old content or the new
// one, also after a loss of power.
package recordstore
