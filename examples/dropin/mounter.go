package main

import (
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
)

// newMounter returns the driver's mounter.
func newMounter() *mountutils.SafeFormatAndMount {
	// Was: return peer.NewSafeFormatAndMount(peer.New(""), exec.New())
	return mountutils.NewSafeFormatAndMount(mountutils.New(mount.New(mount.Config{})), disk.New(disk.Config{}))
}
