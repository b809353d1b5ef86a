// Dropin is the node side of a storage driver that was written against
// k8s.io/mount-utils, as many are, and mounts with this library since two lines
// of it changed: the constructor in mounter.go, and the type of the mounter in node.go.
// Its tests still use the FakeMounter of mount-utils; disks in memory have replaced the
// FakeExec.
//
//	go run ./examples/dropin
//
// It stages a volume, publishes it for two pods, for one of them read-only, verifies
// the view of each, and unmounts everything again. The program works in a user and
// mount namespace of its own: it needs neither preparation nor root nor mount(8).
//
//	go run ./examples/dropin -device /dev/sdx
//
// does the same with the file system on a block device, after it has published the raw device; a
// blank device is formatted. That needs root and mkfs.ext4, and uses fsck.ext4 if it is installed.
//
// The exit status is 0 if everything was as it should be, 2 if the command line was wrong,
// and 1 otherwise, also after an interrupt or when the output cannot be written. The
// program always removes its own mounts.
package main
