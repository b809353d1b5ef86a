// Package beneath has the parts of a walk through a directory that other processes may
// change at the same time: [Open] opens an entry of an open directory, never through a
// symbolic link and never in another mount, on every kernel; a [Listing] has the entries
// that were read from a directory; a [Stack] has the directories from the root to the
// current one, with a bounded number of descriptors; a [Gate] ends the work.
//
// The callers decide what to do with an entry, and which errors to report.
package beneath
