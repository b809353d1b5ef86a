// Package nfsserver is an NFS server for tests: the one of the kernel, in a guest
// of make test-nfs, without a program of Debian's beside it. It speaks NFSv4.0,
// 4.1 and 4.2, and 3 if asked to, over the loopback device, to the same kernel's client:
//
//	server := nfsserver.Start(t, dir)
//	err := unix.Mount(server.Source(dir), target, "nfs4", 0, server.Options("4.2"))
//
// A network has one server, and a kernel as many as networks: [ServeFar] starts one
// that its clients take for another machine. Tests that start servers cannot run in
// parallel, and have names that begin with "TestNFS", for "make test-nfs" to find
// them. Outside of a guest they are skipped, since the machine's own server is not
// ours to set up.
//
// # How it works
//
// The kernel asks daemons in user space about three things, by messages in files.
// Which clients there are, which directories they get, and which directory a file
// handle belongs to, it asks in /proc/net/rpc; rpc.mountd answers elsewhere. Which
// clients it knew before it was started again, it asks in a pipe of rpc_pipefs;
// nfsdcld answers elsewhere. Here the test does, and everything that can be asked
// has its answer before the server starts.
//
// NFSv4 has one tree of files for each server. Ours is a tmpfs, with the
// directories bound at their own paths.
package nfsserver
