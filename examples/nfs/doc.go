// Nfs mounts an NFS export for a pod, shows what it is, and takes it down again:
//
//	go run ./examples/nfs -demo
//	go run ./examples/nfs -server HOST -path /EXPORT
//
// # The demo
//
// With -demo it brings all that it needs along: a kernel that is an ordinary
// program, User-Mode Linux, and in that the kernel's own NFS servers. Nothing is
// mounted on the machine, nothing is installed, and no root is needed. The kernel
// is fetched from Debian's archive, once, which takes a Linux on amd64 with
// Debian's apt-get, dpkg and xz; it is kept in the user's cache directory.
//
// In there two pods share an export, a third may only read it, and then the server
// dies. What needs it returns with its context, a volume is taken down without it,
// one of another server notices nothing, and one that is left alone goes on when
// the server is back. In the end it dies for good, and everything is taken down all
// the same. The kernel tries for minutes to take its leave of a dead server:
// TearDown waits for that as long as its context, and no longer.
//
// # A server of your own
//
// Without -demo an export is mounted on this machine, which takes root, in a
// temporary directory that looks like a kubelet's. The kernel mounts, by the newest
// version 4 that the server has; version 3 and Kerberos take the program mount.nfs.
// Options make a persistent volume of it, since a volume that is written in a pod
// has none:
//
//	go run ./examples/nfs -server nas -path /home -ro -o vers=4.1,noatime -o soft
//
// Shown is what the mount table says, then some names of files and the usage, for
// which the server is asked. Each step may take as long as -timeout.
//
// The exit status is 0 if everything was as it should be, 2 if the command line was
// wrong, and 1 otherwise, also after an interrupt. Whatever happens, the program
// takes down what it has set up.
package main
