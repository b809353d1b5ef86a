// Package mounttest tests programs that mount.
//
// [Fake] is a kernel in memory: a [mount.Interface] with a mount table of its
// own. Unit tests give it to the code under test instead of a mount.Mounter;
// they need no privilege, run on every system that Go builds for, and can make
// any call fail, and any file system hang ([Fault]). It reads the real file
// system, to know which sources and targets exist and of what kind they are, and
// never writes to it: what it mounts is seen through the Fake alone.
//
// Use it to test what a program asks of the kernel and how it takes the
// kernel's answers. It is no proof of what the kernel does with real files:
//
//   - File systems that it mounts (tmpfs, ext4, ...) are empty and stay so.
//   - It knows mounts by path: a directory that is renamed leaves them behind,
//     and counts as removed where it is mounted itself. A directory that is
//     mounted on can be removed.
//   - Mounts spread to peers and slaves as in the kernel; "/" is private. Open
//     files keep no mount busy.
//   - Whether a file system can have an ID map is not checked, and owners are not
//     mapped: mount.Info.Options says "idmapped", and the log has the map.
//
// [Namespace] is for that proof: it runs a test where it may mount for real,
// without being root and seen by nobody else.
//
// [TestInterface] is the contract of mount.Interface, for whoever writes another
// implementation. [Except] leaves out what that one cannot do.
package mounttest
