package disk

import "golang.org/x/sys/unix"

// mayGrowMounted reports whether this thread has the capability that ext4 requires to grow while it is mounted.
func mayGrowMounted() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) != nil || data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}
