// Dropin is the node side of a storage driver that was written against
// k8s.io/mount-utils, as many are, and mounts with this library since one line of
// it changed: the one in mounter.go. The rest of the driver (node.go) and its
// tests, which use the FakeMounter of mount-utils, are what they were.
//
//	go run ./examples/dropin
//
// It stages a volume, publishes it for two pods, for one of them read-only, shows
// that each sees what it should, and takes everything down again. No preparation
// and no root is needed: that happens in a user and mount namespace of the
// program's own. No mount(8) is needed either.
//
//	go run ./examples/dropin -device /dev/sdx
//
// does the same with the file system on a block device, which is made if there is
// none (so name no device whose content you need). That takes root, and the
// programs with which mount-utils formats: blkid, mkfs.ext4 and fsck.
package main
