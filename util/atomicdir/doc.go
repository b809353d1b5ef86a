// Package atomicdir writes sets of files that change all at once for their readers, in the
// layout that the kubelet gives to configMaps and secrets:
//
//	<dir>/..2006_01_02_15_04_05.1234567890/user.conf
//	<dir>/..2006_01_02_15_04_05.1234567890/certs/ca.pem
//	<dir>/..data      -> ..2006_01_02_15_04_05.1234567890
//	<dir>/user.conf   -> ..data/user.conf
//	<dir>/certs       -> ..data/certs
//
// [Write] writes a new set beside the old one, points ..data to it by one rename(2), and
// only then removes the old one. It does not rewrite a set that is unchanged.
//
// # Unchanged sets
//
// The first Write of a process reads the set, and records the inodes and the times of the last
// change of its files and directories in memory. The next Write for the same files queries
// these, and reads nothing if they are the same. The record holds a hash of the files, with a
// secret seed, and not their content. Write reads a set as if it had no record
//
//   - if a file or directory has changed within two seconds before the Write that read it:
//     file systems round times;
//   - if a process had a file open for writing then (the kernel refused a lease): it may
//     have a memory mapping, by which it changes the file without a new time;
//   - with mount points, and on other file systems than ext4, XFS, Btrfs and tmpfs.
//
// On tmpfs a later memory mapping does not advance the time either, so Write reads the files
// each time, but not the directories.
//
// Other volumes may be mounted in the directory. [Options.MountPoints] are created beside
// the sets and stay when sets change; a directory on the way to one is not a link:
//
//	<dir>/certs/ca.pem  -> ../..data/certs/ca.pem
//	<dir>/certs/cache/     a mount point
//
// # Readers
//
// A reader that opens <dir>/user.conf gets the whole file of one of the sets. A reader of
// several files of one set opens the directory <dir>/..data once and the files from
// there; if a file is missing then, the set has been replaced meanwhile, and the reader
// starts again. A watch (inotify) on <dir> reports one creation of ..data for each
// change.
//
// # Crashes
//
// After a crash of the process at any point readers have the old set or the new one,
// whole. The next Write removes leftovers, also if the set is unchanged.
//
// After a loss of power a set can be torn: the next Write, of a new process, reads every
// file, and replaces a set that differs. With [Options.Durable] the set of a Write that has returned is
// whole: files and directories are synced before ..data points to them, and the directory
// afterwards.
//
// # Attackers
//
// The directory may be writable by an attacker, such as a pod. Each step goes from an
// open directory to an entry of it, never through a symbolic link and never into another
// mount (openat2(2); where it is missing, component by component). By swapping names an
// attacker can damage the set, which the next Write repairs, or make a Write fail, but can
// never make Write read, write, change or remove anything outside of the directory. Old
// sets are removed by package scrub.
//
// The directory belongs to the set. Entries of other programs at a name of the set, at
// ..data, or at names like those of timestamped directories are replaced or removed; other
// files stay.
//
// # When not to use it
//
// For one file, write a temporary file and rename it. For a directory with several writing
// programs, this package is no lock: the caller must ensure that there is one Write at a
// time for a directory.
//
// The package requires Linux; on other systems Write fails with errors.ErrUnsupported.
package atomicdir
