// Package atomicdir writes sets of files that change all at once for those who read
// them, in the layout that the kubelet gives to configMaps and secrets:
//
//	<dir>/..2006_01_02_15_04_05.1234567890/user.conf
//	<dir>/..2006_01_02_15_04_05.1234567890/certs/ca.pem
//	<dir>/..data      -> ..2006_01_02_15_04_05.1234567890
//	<dir>/user.conf   -> ..data/user.conf
//	<dir>/certs       -> ..data/certs
//
// [Write] puts a new set beside the old one, makes ..data point to it by one
// rename(2), and only then removes the old one. A set that is as asked already is
// not written again.
//
// # Readers
//
// Who opens <dir>/user.conf has that file as it was in one of the sets, whole. Who
// needs several files of one set opens the directory <dir>/..data once and the files
// from there; a file that is missing then means that the set has been replaced
// meanwhile: begin again. A watch (inotify) on <dir> sees ..data come, once for each
// change.
//
// # Crashes
//
// A process that dies at any place leaves the old set or the new one for readers,
// whole. The next Write removes what was left over, also if the set need not change.
// After a loss of power the same holds, and a Write that had returned has not been
// in vain: files and directories are synced before ..data points to them, and the
// directory afterwards. That is left out on tmpfs and ramfs, where nothing outlives
// the machine.
//
// # Attackers
//
// The directory may be writable to somebody hostile: a pod. Each step goes from an
// open directory to an entry of it, never through a symbolic link and never into
// another mount (openat2(2); where it is missing, component by component). Whoever
// swaps names in there gets a set that is not as it should be, which the next Write
// puts right, or makes a Write fail; never is anything read, written, changed or
// removed outside of the directory. Old sets are removed by package scrub.
//
// The directory is the set's. What others put at a name of the set, at ..data, or at
// names like those of timestamped directories is replaced or removed; their other
// files stay.
//
// # When not to use it
//
// For one file, write a temporary one and rename it. For a directory that programs
// share as writers, this is no lock: there is to be one Write at a time for a
// directory, and the caller sees to that.
//
// It is for Linux; on other systems Write fails with errors.ErrUnsupported.
package atomicdir
