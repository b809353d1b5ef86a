package main

import (
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
	peer "k8s.io/mount-utils"
)

// newMounter returns what the driver mounts with.
func newMounter() peer.Interface {
	// Was: return peer.New("")
	return mountutils.New(mount.New(mount.Config{}))
}
