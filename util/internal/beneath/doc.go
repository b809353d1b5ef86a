// Package beneath is what those have in common who go down into a directory that
// others may be changing, and see to all that is in it: [Open] leads from an open
// directory to an entry, never through a symbolic link and never into another mount,
// on every kernel; a [Listing] is what has been read of a directory; a [Stack] is the
// way down, with a bounded number of descriptors, and back up; a [Gate] ends the work.
//
// What to do with an entry, and which errors are to be named, is the callers' matter.
package beneath
