// Nfs mounts an NFS export for a pod, shows the mount and its files, and unmounts it:
//
//	go run ./agents/cmd/nfs -demo
//	go run ./agents/cmd/nfs -server HOST -path /EXPORT
//
// # The demo
//
// With -demo the program needs no server: it boots a kernel that is an ordinary program,
// User-Mode Linux, with the kernel's own NFS servers inside. Nothing is mounted on the
// machine, nothing is installed, and no root is needed. The kernel is downloaded once from
// Debian's archive, which requires Linux on amd64 with Debian's apt-get, dpkg and xz; it is
// kept in the user's cache directory.
//
// In that kernel two pods share an export, a third may only read it, and then the server
// dies. Calls that need the server return with their contexts, a volume is taken down
// without the server, a volume of another server is not affected, and a volume that stayed
// mounted works again when the server is back. At last the server dies for good, and all
// volumes are taken down nevertheless. The kernel tries for minutes to notify a dead
// server: TearDown waits for that as long as its context, and no longer.
//
// # A server of your own
//
// Without -demo the program mounts an export on this machine, which requires root, in a
// temporary directory with a kubelet's layout. The kernel mounts by the newest version 4
// that the server offers; version 3 and Kerberos require the program mount.nfs. With
// options the volume is a persistent one, since a pod's own NFS volume has none:
//
//	go run ./agents/cmd/nfs -server nas -path /home -ro -o vers=4.1,noatime -o soft
//
// The program prints the entry of the mount table, then some file names and the usage,
// which it reads from the server. -timeout limits each step.
//
// The exit status is 0 on success, 2 for a wrong command line, and 1 otherwise, also after
// an interrupt. The program takes down its volumes in any case.
package main
