// Package nfsserver is an NFS server for tests: the kernel's, in a guest of make test-nfs,
// without Debian's daemons. It speaks NFSv4.0, 4.1 and 4.2, and optionally 3, over the
// loopback device, to the same kernel's client:
//
//	server := nfsserver.Start(t, dir)
//	err := unix.Mount(server.Source(dir), target, "nfs4", 0, server.Options("4.2"))
//
// A network namespace has one server: [ServeFar] starts one in another network namespace,
// which its clients take for another machine. Tests that start servers cannot run in
// parallel, and have names that begin with "TestNFS", by which "make test-nfs" finds them.
// Outside of a guest they are skipped, since the machine's own server is not theirs to
// configure.
//
// # How it works
//
// The kernel queries daemons in user space about three subjects, by messages in files. In
// /proc/net/rpc it queries the clients, their directories, and the directory of a file
// handle; elsewhere rpc.mountd answers. In a pipe of rpc_pipefs it queries the clients from
// before a restart; elsewhere nfsdcld answers. Here the test answers, and all answers exist
// before the server starts.
//
// NFSv4 has one tree of files for each server. Here it is a tmpfs, with bind mounts of the
// directories at their own paths.
package nfsserver
