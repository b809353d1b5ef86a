// Package mounttest tests programs that mount.
//
// [Fake] is a kernel in memory: a [mount.Interface] with a mount table of its own. Unit tests
// give it to the code under test instead of a mount.Mounter; they need no privilege, run on
// every system that Go builds for, and can make any call fail, and any file system hang
// ([Fault]). It reads the real file system, to check that sources and targets exist and of
// which kind they are, and never writes to it: its mounts are visible through the Fake alone.
//
// Use it to test the requests of a program to the kernel and its reactions to the answers. It
// proves nothing about the kernel's treatment of real files:
//
//   - File systems that it mounts (tmpfs, ext4, ...) are empty and stay so.
//   - It identifies mounts by path: the mounts below a renamed directory stay at the old paths,
//     and a bind mount of the directory shows it as removed. A mount point can be removed.
//   - Mounts propagate to peers and slaves as in the kernel; "/" is private. Open files keep
//     no mount busy.
//   - It does not check whether a file system supports ID maps, and maps no owners:
//     mount.Info.Options contains "idmapped", and the log has the map.
//
// [Namespace] is for that proof: it runs a test in a namespace where the test may mount for
// real, without root, and invisibly to other processes.
//
// [TestInterface] is the contract of mount.Interface, for authors of other implementations.
// [Except] leaves out tests that one of them cannot pass.
//
// The package imports neither testing nor testify: a program that uses a Fake, for a dry run
// say, links neither. [T] has the methods of a *testing.T that the package uses.
package mounttest
